"""The card's memory: a first model of the HBM pool.

Counts what is resident, its peak, and the workspace that recipes share. The native bridge logs each storage that
becomes resident or is freed; the log is read here, in order, whenever somebody asks. Left out: placement, alignment
beyond the granule, and fragmentation.
"""

from __future__ import annotations

from collections.abc import Iterable

from .spec import CardSpec

GRANULE = 128  # bytes; the card's cache line, as allocations are aligned to it
INITIAL_WORKSPACE = 4 * 2**20  # PT_HPU_INITIAL_WORKSPACE_SIZE=0 means 4 MB


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to the granule."""
    return (nbytes + GRANULE - 1) // GRANULE * GRANULE


class Hbm:
    """Statistics of the pool, all in bytes or counts."""

    def __init__(self, spec: CardSpec) -> None:
        self.limit = spec.hbm.pool_bytes
        self.workspace = INITIAL_WORKSPACE
        self.persistent = 0
        self.peak = self.workspace
        self.allocations = 0
        self.frees = 0
        self.largest = 0
        self.lifetime_allocations = 0
        self.lifetime_frees = 0

    @property
    def in_use(self) -> int:
        return self.persistent + self.workspace

    def apply(self, events: Iterable[tuple[int, int, int]]) -> None:
        """Take in (address, bytes, buffer number) changes: positive became resident, negative was freed."""
        for _, nbytes, _ in events:
            size = aligned(abs(nbytes))
            if nbytes > 0:
                self.persistent += size
                self.allocations += 1
                self.lifetime_allocations += 1
                self.largest = max(self.largest, size)
                self.peak = max(self.peak, self.in_use)
            else:
                self.persistent -= size
                self.frees += 1
                self.lifetime_frees += 1

    def shortfall(self, nbytes: int, workspace: int = 0) -> int:
        """Bytes that are missing to hold `nbytes` more and a workspace of that size; 0 where it fits."""
        wanted = self.persistent + nbytes + max(self.workspace, workspace)
        return max(0, wanted - self.limit)

    def require_workspace(self, nbytes: int) -> None:
        """The workspace grows to the largest that a recipe needs, and stays."""
        if nbytes > self.workspace:
            self.workspace = aligned(nbytes)
            self.peak = max(self.peak, self.in_use)

    def reset_peak(self) -> None:
        self.peak = self.in_use

    def reset_accumulated(self) -> None:
        self.allocations = self.lifetime_allocations - self.lifetime_frees
        self.frees = 0
        self.largest = 0
