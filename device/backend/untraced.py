"""Keeps `torch.compile` out of our own functions.

While a compiled function runs, PyTorch looks at every Python frame that begins, also where its C++ calls back into us.
Ours are no part of the user's program: looking at them costs time, and one of them could be compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from torch._C._dynamo import eval_frame

_Owner = TypeVar("_Owner", bound=Callable[..., Any])

_SKIP: Any = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)


def untraced(owner: _Owner) -> _Owner:
    """Mark a function, or all methods of a class: they and what they call are run as they are."""
    members = [owner] if isinstance(owner, FunctionType) else [*vars(owner).values()]
    for member in members:
        function = member.fget if isinstance(member, property) else member
        if isinstance(function, FunctionType):
            eval_frame.set_code_exec_strategy(function.__code__, _SKIP)
    return owner
