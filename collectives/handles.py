"""Works that only PyTorch's C++ still holds.

A work's methods are Python's, and go with its Python object. Two functions of PyTorch take a work and keep its C++ half
only; waiting for such a half would never end. So its Python object is kept here for as long.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

_of_forward_pass: weakref.WeakKeyDictionary[Any, dist.Work] = weakref.WeakKeyDictionary()
_registered: dict[int, dist.Work] = {}

_set_forward_pass_work_handle: Any = c10d.Reducer._set_forward_pass_work_handle  # type: ignore[attr-defined]
_register_work: Any = c10d._register_work


def _set_and_keep(reducer: Any, work: dist.Work, *arguments: Any, **options: Any) -> None:
    # DistributedDataParallel's `join`: the backward pass waits for it. The next forward pass brings another.
    _of_forward_pass[reducer] = work
    _set_forward_pass_work_handle(reducer, work, *arguments, **options)


def _register_and_keep(tensor: Any, work: dist.Work) -> Any:
    # Waited for by `wait_tensor` of the functional collectives.
    _registered[id(work)] = work
    return _register_work(tensor, work)


def release(work: dist.Work) -> None:
    """The work was waited for."""
    _registered.pop(id(work), None)


def keep_alive() -> None:
    """Have PyTorch's functions that take a work keep it whole; again is harmless."""
    c10d.Reducer._set_forward_pass_work_handle = _set_and_keep  # type: ignore[method-assign, assignment]
    c10d._register_work = _register_and_keep
