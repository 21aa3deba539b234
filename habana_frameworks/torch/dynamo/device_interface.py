"""What PyTorch's compiler asks of a device: streams, events, properties."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface

from .. import hpu


class HpuInterface(DeviceInterface):
    """The card's answers, for the device names "hpu" and "hpu:0"."""

    device = hpu.device
    Event = hpu.Event
    Stream = hpu.Stream

    class Worker:
        """Answers in processes that compile: they have no card of their own to ask."""

        @staticmethod
        def set_device(device: int) -> None:
            """There is one card, number 0."""

        @staticmethod
        def current_device() -> int:
            return 0

        @staticmethod
        def get_device_properties(device: torch.types.Device = None) -> Any:
            return hpu.get_device_properties(device)

    current_device = staticmethod(hpu.current_device)
    set_device = staticmethod(hpu.set_device)
    device_count = staticmethod(hpu.device_count)
    is_available = staticmethod(hpu.is_available)
    stream = staticmethod(hpu.stream)  # type: ignore[assignment]
    current_stream = staticmethod(hpu.current_stream)
    set_stream = staticmethod(hpu.set_stream)  # type: ignore[assignment]
    synchronize = staticmethod(hpu.synchronize)
    get_device_properties = staticmethod(hpu.get_device_properties)
    memory_allocated = staticmethod(hpu.memory_allocated)

    @staticmethod
    def exchange_device(device: int) -> int:
        """Cards are not changed within a process."""
        return 0

    maybe_exchange_device = exchange_device

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return hpu.current_stream().stream_id

    @staticmethod
    def get_compute_capability(device: torch.types.Device = None) -> str:
        """The name of the card, which is what code for it depends on."""
        return hpu.get_device_name()

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def is_triton_capable(device: torch.types.Device = None) -> bool:
        return False

    @staticmethod
    def raise_if_triton_unavailable(device: torch.types.Device = None) -> None:
        raise RuntimeError('triton has no code for hpu; use torch.compile(..., backend="hpu_backend")')
