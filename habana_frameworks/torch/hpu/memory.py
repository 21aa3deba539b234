"""Memory statistics of the card, all in bytes."""

from __future__ import annotations

import warnings

from device.backend import runtime
from device.memory import Hbm

from .devices import DeviceLike, _get_device_index


def _memory(device: DeviceLike) -> Hbm:
    _get_device_index(device)
    return runtime.card().sync_memory()


def memory_stats(device: DeviceLike = None) -> dict[str, int]:
    """Limit, use, peak and counts of the pool.

    Raises:
        AssertionError: not a card of this process; so do all functions here.
    """
    return _memory(device).statistics.as_dict()


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes in use now."""
    return _memory(device).in_use


def memory_usage(device: DeviceLike = None) -> int:
    """Bytes in use now."""
    return _memory(device).in_use


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Most bytes in use since the start or `reset_peak_memory_stats`."""
    return _memory(device).peak


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes of the pool: the process takes all of the card's."""
    return _memory(device).limit


def max_memory_reserved(device: DeviceLike = None) -> int:
    """As `memory_reserved`."""
    return _memory(device).limit


def memory_cached(device: DeviceLike = None) -> int:
    """The old name of `memory_reserved`."""
    warnings.warn("torch.hpu.memory_cached is now torch.hpu.memory_reserved", FutureWarning, stacklevel=2)
    return memory_reserved(device)


def max_memory_cached(device: DeviceLike = None) -> int:
    """The old name of `max_memory_reserved`."""
    warnings.warn("torch.hpu.max_memory_cached is now torch.hpu.max_memory_reserved", FutureWarning, stacklevel=2)
    return max_memory_reserved(device)


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """(free, total) bytes of the pool."""
    memory = _memory(device)
    return memory.limit - memory.in_use, memory.limit


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """The peak is what is in use now."""
    _memory(device).reset_peak()


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """NumAllocs, NumFrees, MaxAllocSize and the peak start anew; the totals of the process go on."""
    _memory(device).reset_accumulated()


def memory_summary(device: DeviceLike = None) -> str:
    """The statistics as a table."""
    return _title(_get_device_index(device)) + _memory(device).statistics.summary()


def _title(index: int) -> str:
    lines = ("=" * 52, f" {'':5} PyTorch HPU memory summary, device ID {index:<6d} ", "-" * 52)
    return "".join(f"|{line}|\n" for line in lines)


def _extended_memory_summary_dict(device: DeviceLike = None) -> dict[str, int]:
    """The statistics with persistent bytes and workspace apart, and the largest block that is free."""
    memory = _memory(device)
    return memory.statistics.extended(memory.largest_free)


def _extended_memory_summary(device: DeviceLike = None) -> str:
    """`_extended_memory_summary_dict` as a table."""
    lines = []
    for name, value in _extended_memory_summary_dict(device).items():
        text = "" if name in ("num_allocs", "num_free", "active_allocs") else f"{value} ({value / 2**30:.2f}) GB"
        lines.append(f"  {name}:{text:>{49 - len(name)}}  \n")
    return _title(0) + "".join(lines)


def _get_hlml_shared_object_name(device: DeviceLike = None) -> str:
    """Name of the memory that the driver's management library shares: "", as there is none."""
    _get_device_index(device)
    return ""
