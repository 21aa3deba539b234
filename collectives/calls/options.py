"""Options of an operation, from any of the forms in which `torch.distributed.ProcessGroup` takes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist

_OPERATORS = (dist.ReduceOp, dist.ReduceOp.RedOpType)  # type: ignore[attr-defined]


def options(
    make: Callable[[], Any], given: Any, root: int | None = None, op: Any = None, timeout: timedelta | None = None
) -> Any:
    """`given` if it is an options object; else new ones from a root or reduce operator in its place, and the rest."""
    if isinstance(given, _OPERATORS):
        given, op = None, given
    elif isinstance(given, int):
        given, root = None, given
    if given is not None:
        return given
    made = make()
    for name, value in (("rootRank", root), ("reduceOp", op), ("timeout", timeout)):
        if value is not None:
            setattr(made, name, value)
    return made
