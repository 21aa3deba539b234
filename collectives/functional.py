"""What the functional collectives of `torch.distributed` and its own functions need beyond the methods of a group."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.distributed import distributed_c10d

from .process_group import HcclProcessGroup

_monitored_barrier = distributed_c10d.monitored_barrier
_libraries: list[torch.library.Library] = []


def _all_gather_into_tensor_out(
    input: torch.Tensor, group_size: int, group_name: str, *, out: torch.Tensor
) -> torch.Tensor:
    # PyTorch's own kernel calls the group by a name that Python cannot override.
    group: Any = c10d._resolve_process_group(group_name)  # type: ignore[arg-type]
    c10d._register_work(out, group.all_gather_single(out, input))
    return out


def _barrier_that_names(
    group: dist.ProcessGroup | None = None, timeout: timedelta | float | None = None, wait_all_ranks: bool = False
) -> Any:
    """`torch.distributed.monitored_barrier`, for hccl too."""
    target = group if group is not None or not dist.is_initialized() else dist.group.WORLD
    if not isinstance(target, HcclProcessGroup):
        return _monitored_barrier(group, timeout, wait_all_ranks)
    limit = timedelta(seconds=timeout) if isinstance(timeout, (int, float)) else timeout
    return target.monitored_barrier(limit, wait_all_ranks)


def install() -> None:
    """Give PyTorch these; again is harmless."""
    if _libraries:
        return
    library = torch.library.Library("_c10d_functional", "IMPL")
    library.impl("all_gather_into_tensor_out", _all_gather_into_tensor_out, "PrivateUse1")
    _libraries.append(library)
    distributed_c10d.monitored_barrier = _barrier_that_names
    dist.monitored_barrier = _barrier_that_names  # type: ignore[attr-defined]
