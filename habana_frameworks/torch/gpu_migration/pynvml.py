"""The calls of `pynvml` that training scripts make to watch their cards."""

from __future__ import annotations

from types import SimpleNamespace

from .. import hpu


class NVMLError(Exception):
    """Raised for an index without a card."""


def nvmlInit() -> None:
    """Nothing to start."""


def nvmlShutdown() -> None:
    """Nothing to end."""


def nvmlDeviceGetCount() -> int:
    """Cards that this process may use."""
    return hpu.device_count()


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    """The card's index, as its handle."""
    if not 0 <= index < hpu.device_count():
        raise NVMLError(f"there is no card {index}; there are {hpu.device_count()}")
    return index


def nvmlDeviceGetName(handle: int) -> str:
    """GAUDI, GAUDI2 or GAUDI3."""
    return hpu.get_device_name()


def nvmlDeviceGetMemoryInfo(handle: int) -> SimpleNamespace:
    """`total`, `used` and `free` bytes of this process's card."""
    free, total = hpu.mem_get_info()
    return SimpleNamespace(total=total, used=total - free, free=free)


def nvmlDeviceGetUtilizationRates(handle: int) -> SimpleNamespace:
    """`gpu` and `memory`, percent: the card's utilization, and the share of its memory that is in use."""
    memory = nvmlDeviceGetMemoryInfo(handle)
    return SimpleNamespace(gpu=hpu.utilization(), memory=round(100 * memory.used / memory.total))
