"""Changes to PyTorch's own functions that a device outside PyTorch needs."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions
from torch.utils.checkpoint import DefaultDeviceType

from ..errors import HpuError

NAME = "hpu"

_format = torch._tensor_str._tensor_str
_fork_rng = torch.random.fork_rng
_record_stream = torch.Tensor.record_stream


def _on_hpu(tensor: torch.Tensor) -> bool:
    return tensor.device.type == NAME


def _print_from_host(tensor: torch.Tensor, indent: int) -> str:
    # Formatting computes with the tensor; on the card each of these operators would be compiled.
    return _format(tensor.detach().cpu() if _on_hpu(tensor) else tensor, indent)


@contextmanager
def _fork_rng_of_one_card(
    devices: Iterable[Any] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = NAME,
) -> Generator[None, None, None]:
    """`torch.random.fork_rng` for hpu by default; a process has the random state of one card."""
    if device_type == NAME and devices is None:
        devices = [0]
    with _fork_rng(devices, enabled, _caller, _devices_kw, device_type):
        yield


def _record_stream_on_host(tensor: torch.Tensor, stream: Any) -> None:
    # Memory is recycled in program order, so a tensor need not be kept for another stream.
    if not _on_hpu(tensor):
        _record_stream(tensor, stream)


def _reduce_host_storage(storage: torch.UntypedStorage) -> Any:
    """How a storage goes to another process (queue, pipe, spawned process, worker of a DataLoader).

    Raises:
        HpuError: it lies on the card.
    """
    if storage.device.type == NAME:
        raise HpuError(
            "a tensor on hpu cannot be sent to another process: its memory belongs to this process's card. Send "
            'tensor.cpu(), and move it with .to("hpu") where it arrives; a data set for the workers of a DataLoader '
            "holds tensors of the host"
        )
    return reductions.reduce_storage(storage)


def apply() -> None:
    """Install the changes."""
    ForkingPickler.register(torch.UntypedStorage, _reduce_host_storage)
    torch._tensor_str._tensor_str = _print_from_host
    torch.random.fork_rng = _fork_rng_of_one_card
    # The fast path of attention modules is for the devices that PyTorch knows; it needs nested tensors.
    torch.backends.mha.set_fastpath_enabled(False)
    DefaultDeviceType.set_device_type(NAME)
    torch.Tensor.record_stream = _record_stream_on_host  # type: ignore
