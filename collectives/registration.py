"""Makes `dist.init_process_group("hccl")` mean `HcclProcessGroup`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

from . import functional
from .adaptations import adapt
from .emulation import is_distributed_emulation_enabled
from .handles import keep_alive
from .process_group import HcclProcessGroup
from .silent_group import SilentGroup


def register(name: str = "hccl", devices: Sequence[str] = ("hpu",)) -> None:
    """Register the backend with torch.distributed, for tensors of these device types; again is harmless."""

    def create(options: Any, backend_options: Any) -> Any:
        if is_distributed_emulation_enabled():
            return SilentGroup(options.group_rank, options.group_size, options.group_id, devices)
        return HcclProcessGroup(
            store=options.store,
            rank=options.group_rank,
            size=options.group_size,
            timeout=options.timeout,
            ranks=options.global_ranks_in_group,
            name=options.group_id,
            device_types=devices,
        )

    adapt()
    keep_alive()
    functional.install()
    dist.Backend.register_backend(name, create, extended_api=True, devices=list(devices))
