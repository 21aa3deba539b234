"""Counters of the pool and the forms in which scripts read them; sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Statistics:
    """Counts as the bridge keeps them: growth of the workspace is an allocation; moving is freeing and allocating."""

    limit: int
    in_use: int = 0
    peak: int = 0
    workspace: int = 0
    last_workspace: int = 0  # what the last recipe asked for
    largest: int = 0  # largest single allocation
    allocations: int = 0
    frees: int = 0
    total_allocations: int = 0
    total_frees: int = 0

    def allocated(self, nbytes: int) -> None:
        """One allocation."""
        self.settle(self.in_use + nbytes, self.in_use + nbytes, max(self.largest, nbytes), 1, 0)

    def freed(self, nbytes: int) -> None:
        """One block freed."""
        self.settle(self.in_use - nbytes, self.in_use, self.largest, 0, 1)

    def settle(self, in_use: int, high: int, largest: int, allocations: int, frees: int) -> None:
        """Take over the outcome of many allocations and frees; `high` is the most that was in use meanwhile."""
        self.in_use = in_use
        self.largest = largest
        if high > self.peak:
            self.peak = high
        self.allocations += allocations
        self.frees += frees
        self.total_allocations += allocations
        self.total_frees += frees

    def reset(self) -> None:
        """Counts, largest allocation and peak start anew; the totals of the process go on."""
        self.allocations = self.frees = self.largest = 0
        self.peak = self.in_use

    def as_dict(self) -> dict[str, int]:
        """What `torch.hpu.memory_stats` answers."""
        return {
            "Limit": self.limit,
            "InUse": self.in_use,
            "MaxInUse": self.peak,
            "NumAllocs": self.allocations,
            "NumFrees": self.frees,
            "ActiveAllocs": self.allocations - self.frees,
            "MaxAllocSize": self.largest,
            "TotalSystemAllocs": self.total_allocations,
            "TotalSystemFrees": self.total_frees,
            "TotalActiveAllocs": self.total_allocations - self.total_frees,
        }

    def extended(self, largest_free: int) -> dict[str, int]:
        """What `_extended_memory_summary_dict` answers. `future`, results that are only recorded, is not known: 0."""
        return {
            "limit": self.limit,
            "in_use": self.in_use,
            "persistent": self.in_use - self.workspace,
            "workspace": self.workspace,
            "last_workspace": self.last_workspace,
            "future": 0,
            "max_cntgs_chunk": largest_free,
            "max_in_use": self.peak,
            "num_allocs": self.allocations,
            "num_free": self.frees,
            "max_alloc_size": self.largest,
            "active_allocs": self.allocations - self.frees,
        }

    def summary(self) -> str:
        """The lines of `torch.hpu.memory_summary` below its title."""
        rows = (
            ("Limit", self.limit, "GB"),
            ("InUse", self.in_use, "MB"),
            ("MaxInUse", self.peak, "MB"),
            ("NumAllocs", self.allocations, ""),
            ("NumFrees", self.frees, ""),
            ("MaxAllocSize", self.largest, "MB"),
            ("ActiveAllocs", self.allocations - self.frees, ""),
        )
        scales = {"GB": 2**30, "MB": 2**20}
        lines = []
        for name, value, unit in rows:
            scaled = f" ({value / scales[unit]:.2f} {unit})" if unit else ""
            lines.append(f"  {name + ':':<19}{value:>20}{scaled}")
        return "\n".join([*lines, "", ""])
