"""What `torch.distributed` asks of a group beside its operations: names, devices, the device that it is bound to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from device.backend import runtime
from device.backend.untraced import untraced

# torch's stub gives every method a list of overloads that no single Python signature can match.
_ProcessGroup: Any = dist.ProcessGroup


@untraced
class Identity(_ProcessGroup):
    """A process group's name and devices. `device_types` is what `torch.distributed` may use the group for."""

    supports_splitting = True
    supports_coalescing = False
    supports_time_estimate = False
    options = None  # what a backend was configured with; HCCL takes nothing

    def __init__(self, rank: int, size: int, name: str, device_types: Sequence[str]) -> None:
        # Only this form of the base's constructor makes a group whose methods C++ finds.
        super().__init__(rank, size)
        self._name = name
        self._description = "undefined"
        self._devices = list(device_types)
        self._splits = 0

    def getBackendName(self) -> str:
        return "hccl"

    def getGroupName(self) -> str:
        return self._name

    def getGroupDesc(self) -> str:
        return self._description

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    @property
    def group_name(self) -> str:
        return self._name

    @property
    def group_desc(self) -> str:
        return self._description

    @property
    def _device_types(self) -> list[torch.device]:
        # Python's objects travel in host memory where the card's has no values.
        host = [] if runtime.settings().numerics or "cpu" in self._devices else ["cpu"]
        return [torch.device(kind) for kind in [*host, *self._devices]]

    def _get_backend(self, device: torch.device) -> Identity:
        return self

    def eager_connect_single_device(self, device: torch.device) -> None:
        """`init_process_group(device_id=...)`: a process has one card, so the device is only remembered."""
        self.bound_device_id = device

    def perform_nocolor_split(self, device: torch.device) -> None:
        """This rank has no part in a new group; with HCCL the others do not need it."""

    def comm_split_count(self) -> int:
        """How many groups were split off."""
        return self._splits

    setGroupName = _set_group_name
    setGroupDesc = _set_group_desc
