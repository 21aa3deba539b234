"""Cards seen from a script. A process holds one card, which is always device 0 to it."""

from __future__ import annotations

import os
from typing import Any

import torch

from device import modules
from device.backend import native, runtime
from device.card import current_card
from device.spec import chosen_card

DeviceLike = torch.device | str | int | None


def _lazy_init() -> None:
    """Called by PyTorch before it makes anything on hpu: acquires the card."""
    runtime.card()


def _is_in_bad_fork() -> bool:
    return False


def init() -> None:
    """Acquire the card."""
    runtime.card()


def is_initialized() -> bool:
    """Whether this process has acquired its card."""
    return current_card() is not None


def device_count() -> int:
    """Cards that this process may use; asking does not acquire one."""
    return runtime.device_count()


def is_available() -> bool:
    """Whether there is a card that can be used. Never raises."""
    try:
        return device_count() > 0 and (runtime.is_loaded() or native.library_path().exists())
    except ValueError:
        return False


def current_device() -> int:
    """Always 0: a process holds one card."""
    return 0


def _get_device_index(device: DeviceLike, optional: bool = False) -> int:
    """The index that `device` stands for.

    Raises:
        AssertionError: not the index of a card of this box.
        ValueError: not an hpu device.
    """
    if device is None:
        return current_device()
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "hpu":
            raise ValueError(f"Expected a hpu device, but got: {device}")
        index = 0 if device.index is None else device.index
    else:
        index = int(device)
    if not 0 <= index < max(device_count(), 1):
        raise AssertionError(f"Invalid device id {index}: there are {device_count()} cards, 0 to {device_count() - 1}")
    return index


def get_device_name(device: DeviceLike = None) -> str:
    """GAUDI, GAUDI2 or GAUDI3; acquires the card."""
    _get_device_index(device)
    init()
    return chosen_card().device_name


def get_device_capability(device: DeviceLike = None) -> str:
    """The driver's version."""
    _get_device_index(device)
    return runtime.settings().software


def get_device_properties(device: DeviceLike = None) -> str:
    """The card's fields as the bridge prints them."""
    index = _get_device_index(device)
    spec = runtime.card().spec
    return (
        f"(sramBaseAddress=0x1000000000000000, dramBaseAddress=0x1001000000000000, "
        f"sramSize={spec.sram.capacity_bytes}, dramSize={spec.hbm.capacity_bytes}, "
        f"tpcEnabledMask={(1 << spec.tpc.count) - 1:#x}, dramEnabled=1, fd={index}, "
        f"device_id={runtime.card().module}, device_type={spec.device_type})"
    )


def can_device_access_peer(device: int, peer_device: int) -> bool:
    """Whether two different cards of the box can reach each other: always.

    Raises:
        AssertionError: the same card twice, or an index without a card.
    """
    first, second = _get_device_index(device), _get_device_index(peer_device)
    assert first != second, f"a card is no peer of itself: {first}"
    return True


def get_arch_list() -> list[str]:
    """The device name in a list."""
    return [get_device_name()]


def get_gencode_flags() -> str:
    """Nothing: there is no such thing here."""
    return ""


def is_bf16_supported() -> bool:
    """Every Gaudi has bfloat16."""
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Types for `torch.autocast("hpu")`; the first Gaudi has no float16."""
    refused = chosen_card().dtypes.refused
    return [dtype for dtype in (torch.bfloat16, torch.float16) if str(dtype).removeprefix("torch.") not in refused]


def set_device(device: DeviceLike) -> None:
    """Choose the module that this process will acquire: writes HLS_MODULE_ID from the visible modules."""
    if device is None:
        return
    index = _get_device_index(device)
    os.environ["HLS_MODULE_ID"] = str(modules.visible_modules()[index])


def synchronize(device: DeviceLike = None) -> None:
    """Run everything recorded and wait for the card."""
    _get_device_index(device)
    card = current_card()
    if card is not None:
        card.flush_and_wait("synchronize")


def utilization(device: DeviceLike = None) -> int:
    """Percent of the modelled time so far in which the card computed."""
    _get_device_index(device)
    return round(100 * runtime.card().figures()["utilization"])


class device:
    """Context manager that selects a device; there is one, so it only checks the index."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = _get_device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> device:
        self.prev_idx = current_device()
        return self

    def __exit__(self, *exception: Any) -> None:
        return None


class device_of(device):
    """Selects the device of a tensor."""

    def __init__(self, obj: torch.Tensor) -> None:
        super().__init__(obj.device if obj.device.type == "hpu" else None)
