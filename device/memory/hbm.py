"""The card's memory (HBM) as one process sees it: a pool of blocks, the workspace that recipes share, and statistics.

The native bridge logs each storage that becomes resident or is freed as (address, bytes, slot); `slot` is the buffer
number in the graph whose end made it resident, -1 for a copy from the host. `apply` takes the log in, in order.
Before a graph runs, `reserve` also sees to its workspace, and tells when memory ran out. What does not fit holds no
memory from then on: its address is remembered until the storage is freed, so that the later event does no harm.

Left out: memory that the driver or the network library takes beside the pool, and waiting for launched recipes to end
before memory is reused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..spec import CardSpec
from .defragmentation import Defragmentation, make_room, make_room_below_end, moved_bytes
from .holding import COPIES, Copied, Holding, Shortage
from .limits import INITIAL_WORKSPACE, PoolLimits
from .notes import Notes
from .pool import GRANULE, HEADER_BYTES, RESERVED_BYTES, SHIFT, Pool, SmallRegion, aligned, size_of
from .statistics import Statistics
from .usage import Category, Sample, Usage

Event = tuple[int, int, int]  # address, bytes (negative: freed), slot

_ACTIVATIONS, _OTHER, _WORKSPACE = int(Category.ACTIVATIONS), int(Category.OTHER), int(Category.WORKSPACE)


def _is_output(event: Event) -> bool:
    return event[1] > 0 and event[2] >= 0


class Hbm:
    """The memory of one card. `learn`: remember what the outputs of a graph are for when it runs again."""

    def __init__(self, spec: CardSpec, limits: PoolLimits | None = None, learn: bool = True) -> None:
        limits = limits or PoolLimits(spec.hbm.pool_bytes)
        self.limit = limits.limit
        self.statistics = Statistics(limits.limit)
        self.step = 0
        self.defragmentations: list[Defragmentation] = []  # the card takes them out
        self._limits = limits
        self._bandwidth = spec.hbm.bandwidth_bytes_per_s
        self._pool = Pool(RESERVED_BYTES, limits.limit // GRANULE * GRANULE)
        self._small = SmallRegion(HEADER_BYTES, RESERVED_BYTES)
        self._held: dict[int, tuple[int, int, int, str, int, int]] = {}  # Holdings, by address
        self._refused: dict[int, Event] = {}
        self._notes = Notes(learn)
        self._shortage: Shortage | None = None
        self._totals = [0] * len(Category)
        self._totals[_OTHER] = RESERVED_BYTES
        self._lock = threading.Lock()
        self.statistics.allocated(RESERVED_BYTES)  # the pool's own, before counting starts
        self.statistics.allocations = self.statistics.largest = 0
        self._grow(aligned(limits.initial_workspace))
        self._usage = Usage(self._totals)
        self._high = self.in_use

    # -- figures --------------------------------------------------------------------------------------------------

    @property
    def in_use(self) -> int:
        """Bytes in use: tensors, workspace and the pool's reserve."""
        return self.statistics.in_use

    @property
    def peak(self) -> int:
        """Most bytes in use since the start or `reset_peak`."""
        return self.statistics.peak

    @property
    def workspace(self) -> int:
        """Bytes of the workspace that recipes share."""
        return self.statistics.workspace

    @property
    def free(self) -> int:
        """Bytes of all holes."""
        return self._pool.free

    @property
    def largest_free(self) -> int:
        """Bytes of the largest hole: a larger request needs defragmentation."""
        return self._pool.largest

    @property
    def origins(self) -> int:
        """Graphs seen so far; while it stays the same, what they make is known."""
        return len(self._notes.origins)

    @property
    def learns(self) -> bool:
        """Whether the outputs of graphs keep their category when the graph runs again."""
        return self._notes.learn

    @property
    def has_refused(self) -> bool:
        """Whether there are storages without memory, of graphs or copies that did not fit."""
        return bool(self._refused)

    def reset_peak(self) -> None:
        """The peak is what is in use now."""
        self._high = self.statistics.peak = self.statistics.in_use

    def reset_accumulated(self) -> None:
        """Counts of allocations and frees, the largest and the peak start anew."""
        self.statistics.reset()
        self.reset_peak()

    # -- taking in events -----------------------------------------------------------------------------------------

    def apply(self, events: Sequence[Event], origin: str = COPIES, moment: float = 0.0) -> None:
        """Take in changes; `origin` names the graph that slots belong to. What does not fit is told by `reserve`."""
        if events:
            with self._lock:
                self._apply(events, origin, moment, self.workspace)

    def reserve(
        self, events: Sequence[Event], workspace: int = 0, origin: str = COPIES, moment: float = 0.0
    ) -> Shortage | None:
        """Take in the events up to the end of a graph and make room for its workspace, before it runs.

        Returns:
            What did not fit, if anything, then and in `apply` before. Then no output of this graph holds memory.
        """
        with self._lock:
            if workspace > self.workspace:
                self._apply([event for event in events if not _is_output(event)], origin, moment, workspace)
                present = self.workspace
                if not self._grow(aligned(workspace)):
                    self._run_short(workspace, present)
                elif self.in_use > self._high:
                    self._high = self.in_use
                    self._usage.rise(moment, self.step, self._totals, origin)
                self._apply([event for event in events if _is_output(event)], origin, moment, workspace)
            elif events:
                needed = self.workspace if origin == COPIES else max(workspace, INITIAL_WORKSPACE)
                self._apply(events, origin, moment, needed)
            if workspace:
                self.statistics.last_workspace = workspace
            shortage, self._shortage = self._shortage, None
            if shortage is not None:
                self._take_back(event for event in events if _is_output(event))
            return shortage

    def abandon(self, events: Sequence[Event]) -> None:
        """As `apply`, for a graph that will not run: its outputs hold no memory."""
        with self._lock:
            self._refused.update((event[0], event) for event in events if _is_output(event))
            self._apply([event for event in events if not _is_output(event)], COPIES, 0.0, self.workspace)

    def set_aside(self, events: Iterable[Event]) -> None:
        """Those storages hold no memory until `readmit` brings them back."""
        with self._lock:
            self._take_back(event for event in events if event[0] in self._held)

    def readmit(self, addresses: Iterable[int], events: Sequence[Event]) -> list[Event]:
        """The events, and before a graph's outputs those by which storages that did not fit become resident after all.

        `addresses`: what the graph uses.
        """
        again = [self._refused.pop(address) for address in addresses if address in self._refused]
        return [
            *(event for event in events if not _is_output(event)),
            *((address, nbytes, -1) for address, nbytes, _ in again),
            *(event for event in events if _is_output(event)),
        ]

    def _apply(self, events: Sequence[Event], origin: str, moment: float, workspace: int) -> None:
        # The hot path of every flush: local names, plain tuples, and counts written back once.
        held, totals, statistics = self._held, self._totals, self.statistics
        allocate, release, notes = self._pool.allocate, self._pool.release, self._notes
        categories, early = notes.of(origin), notes.early
        in_use, high, largest = statistics.in_use, self._high, statistics.largest
        since = self._usage.number
        allocations = frees = 0
        risen = False
        for address, nbytes, slot in events:
            if nbytes > 0:
                size = (nbytes + GRANULE - 1) & -GRANULE
                block = self._small.allocate() if size == GRANULE else 0
                if not block:
                    block = allocate(size)
                    if not block:
                        statistics.in_use, statistics.largest = in_use, largest
                        block = self._find_room(size, workspace)
                        in_use, largest = statistics.in_use, statistics.largest
                        if not block:
                            self._refused[address] = (address, nbytes, slot)
                            self._run_short(nbytes)
                            continue
                    size = block >> SHIFT
                    in_use += size
                    if size > largest:
                        largest = size
                    if in_use > high:
                        high = in_use
                        risen = True
                else:
                    size = 0
                category = categories.get(slot, _ACTIVATIONS if slot >= 0 else _OTHER)
                if address in early:
                    category = early.pop(address)
                    notes.remember(origin, slot, category)
                totals[category] += size
                held[address] = (block, category, since, origin, slot, nbytes)
                allocations += 1
            else:
                holding = held.pop(address, None)
                if holding is None:
                    self._refused.pop(address, None)
                    continue
                if risen:
                    self._usage.rise(moment, self.step, totals, origin)
                    since = self._usage.number
                    risen = False
                block = holding[0]
                size = block >> SHIFT
                if size:
                    release(block)
                    totals[holding[1]] -= size
                    in_use -= size
                else:
                    self._small.release(block)
                if holding[4] < 0:
                    notes.copies.pop(address, None)
                frees += 1
        statistics.settle(in_use, high, largest, allocations, frees)
        self._high = high
        if risen:
            self._usage.rise(moment, self.step, totals, origin)

    # -- when no hole fits ----------------------------------------------------------------------------------------

    def _find_room(self, size: int, workspace: int) -> int:
        """A block for a request that found no hole: from a smaller workspace, or by moving tensors; 0 for none."""
        if self._shortage is not None:
            return 0
        needed = aligned(workspace)
        if self._pool.free < size and self._limits.shrink_workspace and needed < self.workspace:
            self._pool.raise_end(self.workspace - needed)
            self.statistics.freed(self.workspace)
            self.statistics.allocated(needed)
            self._set_workspace(needed)
            block = self._pool.allocate(size)
            if block:
                return block
        if self._pool.free < size or not self._limits.defragment:
            return 0
        self._settle_moves(make_room(self._pool, self._wanted(), size))
        return self._pool.allocate(size)

    def _grow(self, workspace: int) -> bool:
        more = workspace - self.workspace
        grown = self._pool.lower_end(more)
        if not grown and self._limits.defragment and self._pool.free >= more:
            self._settle_moves(make_room_below_end(self._pool, self._wanted(), more))
            grown = self._pool.lower_end(more)
        if grown:
            self.statistics.allocated(more)
            self._set_workspace(workspace)
        return grown

    def _set_workspace(self, workspace: int) -> None:
        self.statistics.workspace = self._totals[_WORKSPACE] = workspace

    def _wanted(self) -> dict[int, int]:
        return {holding[0]: aligned(holding[5]) for holding in self._held.values() if size_of(holding[0])}

    def _settle_moves(self, moves: Mapping[int, int] | None) -> None:
        if moves is None:
            return
        addresses = {holding[0]: address for address, holding in self._held.items()}
        for old, new in moves.items():
            holding = self._held[addresses[old]]
            self._held[addresses[old]] = (new, *holding[1:])
            self._totals[holding[1]] += size_of(new) - size_of(old)
            self.statistics.freed(size_of(old))
            self.statistics.allocated(size_of(new))
        moved, nbytes = moved_bytes(moves)
        self.defragmentations.append(Defragmentation(moved, nbytes, 2 * nbytes / self._bandwidth))

    def _run_short(self, requested: int, workspace: int | None = None) -> None:
        if self._shortage is None:
            self._shortage = Shortage(requested, self._pool.free, self._pool.largest, self.limit, workspace)

    def _take_back(self, events: Iterable[Event]) -> None:
        for event in events:
            if event[0] in self._held:
                holding = self._held.pop(event[0])
                self._refused[event[0]] = event
                size = size_of(holding[0])
                if size:
                    self._pool.release(holding[0])
                else:
                    self._small.release(holding[0])
                self._totals[holding[1]] -= size
                self.statistics.freed(size)

    # -- what it is for -------------------------------------------------------------------------------------------

    def label(self, address: int, category: Category) -> None:
        """The storage at that address, resident or not yet, is of that category."""
        with self._lock:
            holding = self._held.get(address)
            if holding is None:
                self._notes.told(address, int(category))
            elif holding[1] != category:
                block, before, since, origin, slot, nbytes = holding
                self._held[address] = (block, int(category), since, origin, slot, nbytes)
                size = size_of(block)
                self._totals[before] -= size
                self._totals[category] += size
                self._usage.correct(since, before, int(category), size)
                self._notes.remember(origin, slot, int(category))

    def copied(self, address: int, dtype: str, sizes: tuple[int, ...], where: str) -> None:
        """The host copied a tensor to that address, from the user's source line `where`."""
        self._notes.copied(address, Copied(dtype, sizes, where))

    def copy_at(self, address: int) -> Copied | None:
        """What was copied to that address."""
        return self._notes.copies.get(address)

    def largest_holdings(self, count: int) -> list[tuple[int, Holding]]:
        """Addresses and holdings of the largest tensors, largest first, the older first of equals."""
        with self._lock:
            ranked = sorted(self._held.items(), key=lambda item: (-item[1][5], item[0]))
            return [(address, Holding(*holding)) for address, holding in ranked[:count]]

    # -- the run --------------------------------------------------------------------------------------------------

    def end_step(self, moment: float, step: int) -> None:
        """Step number `step` has ended, at `moment` (modelled seconds)."""
        with self._lock:
            if self._usage.end_step(moment, self.step, self._totals):
                self._high = self.in_use
            self.step = step

    def timeline(self, moment: float) -> list[dict[str, Any]]:
        """Bytes by category: at the highest point and the end of each step so far, and now."""
        with self._lock:
            return self._usage.rows(Sample(self._usage.number, moment, self.step, list(self._totals), ""))

    def at_peak(self) -> dict[str, Any]:
        """Bytes by category when most was in use in the whole run; `origin` is the graph whose tensors came last."""
        with self._lock:
            return {**self._usage.peak.row(), "origin": self._usage.peak.origin}
