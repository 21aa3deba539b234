"""Memory statistics of the card, all in bytes."""

from __future__ import annotations

from device.backend import runtime
from device.memory import Hbm

from .devices import DeviceLike, _get_device_index


def _memory(device: DeviceLike) -> Hbm:
    _get_device_index(device)
    return runtime.card().sync_memory()


def memory_stats(device: DeviceLike = None) -> dict[str, int]:
    """Limit, use, peak and counts of the pool."""
    memory = _memory(device)
    return {
        "Limit": memory.limit,
        "InUse": memory.in_use,
        "MaxInUse": memory.peak,
        "NumAllocs": memory.allocations,
        "NumFrees": memory.frees,
        "ActiveAllocs": memory.allocations - memory.frees,
        "MaxAllocSize": memory.largest,
        "TotalSystemAllocs": memory.lifetime_allocations,
        "TotalSystemFrees": memory.lifetime_frees,
        "TotalActiveAllocs": memory.lifetime_allocations - memory.lifetime_frees,
    }


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


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """(free, total) bytes of the pool."""
    memory = _memory(device)
    return memory.limit - memory.in_use, memory.limit


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """The peak is what is in use now."""
    _memory(device).reset_peak()


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Counts of allocations and frees start anew; what is allocated stays counted."""
    _memory(device).reset_accumulated()


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """The statistics as a table."""
    index = _get_device_index(device)
    stats = memory_stats(device)
    rows = [
        ("Limit (GB)", f"{stats['Limit'] / 2**30:.2f}"),
        ("InUse (MB)", f"{stats['InUse'] / 2**20:.2f}"),
        ("MaxInUse (MB)", f"{stats['MaxInUse'] / 2**20:.2f}"),
        ("NumAllocs", str(stats["NumAllocs"])),
        ("NumFrees", str(stats["NumFrees"])),
        ("MaxAllocSize (MB)", f"{stats['MaxAllocSize'] / 2**20:.2f}"),
        ("ActiveAllocs", str(stats["ActiveAllocs"])),
    ]
    edge = "|" + "=" * 52 + "|"
    title = f" PyTorch HPU memory summary, device ID {index}"
    lines = [edge, f"|{title:<52}|", "|" + "-" * 52 + "|"]
    lines += [f"|{label:>20} {value:<31}|" for label, value in rows]
    return "\n".join([*lines, edge])
