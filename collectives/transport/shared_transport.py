"""Collectives among ranks of one machine, through shared memory.

Each operation begins with a barrier at which every rank shows its header (and, where there is room, its first
chunk of data), so ranks that disagree find out before anything is read. Small operations end there. Larger
ones go through bounded buffers in chunks, as a pipeline: while chunk i is being published, chunk i - 1 is
combined and chunk i - 2 collected, with one barrier between.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from device.errors import ConfigurationError

from .. import header
from ..errors import MismatchError, SharedMemoryError
from ..exchange import Exchange
from ..guard import Guard
from .agreement import describe_last, disagreement, split_tables
from .area import Area
from .membership import Membership
from .shared_memory import MIB, Segment, segment_name
from .signals import LINE_BYTES, Signals
from .subgroup import Subgroup

SMALL_BYTES = 16 * 1024  # a slot of the small area: what one barrier can carry for each rank
SLOT_BYTES = 512 * 1024  # a slot of the large area, unless HPUCLUSTER_SHM_MB says otherwise
_SMALLEST_SLOT = 16 * 1024
_SMALL_GENERATIONS, _LARGE_GENERATIONS = 2, 3


def buffer_budget() -> int | None:
    """HPUCLUSTER_SHM_MB in bytes: the most that the large buffers of one group may take; None if unset.

    Raises:
        ConfigurationError: not a positive number.
    """
    text = os.environ.get("HPUCLUSTER_SHM_MB", "").strip()
    if not text:
        return None
    try:
        megabytes = float(text)
    except ValueError:
        megabytes = 0.0
    if not 0 < megabytes < float("inf"):
        raise ConfigurationError(f"HPUCLUSTER_SHM_MB={text!r} is not a number of megabytes; for example 64")
    return int(megabytes * MIB)


def _aligned(nbytes: int) -> int:
    return nbytes // LINE_BYTES * LINE_BYTES


class SharedTransport:
    """One group's shared memory. Operations are run one at a time, in the same order on every rank."""

    def __init__(self, membership: Membership | Subgroup, group: str, guard: Guard) -> None:
        self._membership = membership
        self._group = group
        self._own = membership.own
        self._ranks = ranks = len(membership.peers)
        self._steps = 0
        self._shown = 0
        board_bytes = header.header_bytes(ranks)
        layout = [(ranks + 1) * LINE_BYTES, 2 * ranks * board_bytes, _SMALL_GENERATIONS * ranks * SMALL_BYTES]
        self._segment = self._share(
            "signals", lambda: Segment.create(segment_name(group, "signals"), sum(layout)), guard
        )
        memory = self._segment.memory
        self._signals = Signals(self._segment, 0, ranks + 1)
        board = memory[layout[0] : layout[0] + layout[1]].reshape(2, ranks, board_bytes)
        self._boards = [[memoryview(slot) for slot in generation] for generation in board]
        self._small = Area(memory[layout[0] + layout[1] :], _SMALL_GENERATIONS, ranks, SMALL_BYTES)
        self._large: Area | None = None

    def run(
        self, signature: header.Signature, sequence: int, arrival: float, exchange: Exchange, guard: Guard
    ) -> list[float]:
        """Take part in a collective; returns every rank's arrival (modelled seconds).

        Raises:
            MismatchError: ranks disagree; all of them get this error, and the group stays usable.
            PeerLost, CollectiveTimeout, SharedMemoryError: the group is of no use any more.
        """
        area = None if exchange.is_uneven else self._fitting(exchange)
        if area is not None:
            self._publish(exchange, area, 0)
        board = self._boards[self._shown % 2]
        self._shown += 1
        key = header.write(board[self._own], sequence, signature, arrival, exchange.table())
        self._step(guard)
        if not all(header.has_key(slot, key) for slot in board):
            raise MismatchError(disagreement(self._membership, self._group, board))
        arrivals = [header.read_arrival(slot) for slot in board]
        if exchange.is_uneven:
            exchange.agree(split_tables(self._membership, self._group, board))
        if exchange.items == 0:
            return arrivals
        if area is None:
            self.exchange(exchange, guard)
        else:
            area.advance(self._pump(exchange, area, guard))
        return arrivals

    def exchange(self, exchange: Exchange, guard: Guard) -> None:
        """Take part in an exchange that all ranks have agreed on already (`agree` was called where it is uneven).

        Raises:
            PeerLost, CollectiveTimeout, SharedMemoryError: the group is of no use any more.
        """
        if exchange.items == 0:
            return
        area = self._fitting(exchange) or self._make_large(guard)
        self._publish(exchange, area, 0)
        self._step(guard)
        area.advance(self._pump(exchange, area, guard))

    def last_seen(self, rank: int) -> str:
        """What a rank's latest header says, in words."""
        slots = [board[rank] for board in self._boards]
        return describe_last(self._membership, rank, max(slots, key=header.read_sequence))

    # -- stages --------------------------------------------------------------------------------------------

    def _step(self, guard: Guard) -> None:
        """A barrier."""
        self._steps += 1
        self._signals.barrier(self._own, self._ranks, self._steps, guard)

    def _pump(self, exchange: Exchange, area: Area, guard: Guard) -> int:
        """Run the pipeline, chunk 0 being published; returns the number of chunks."""
        size = self._chunk_items(exchange, area)
        chunks = -(-exchange.items // size)
        depth = 2 if exchange.combines else 1
        for turn in range(1, chunks + depth):
            if turn < chunks:
                self._publish(exchange, area, turn)
            if exchange.combines and turn <= chunks:
                low = (turn - 1) * size
                exchange.combine(area.slots(turn - 1, exchange.dtype), low, min(low + size, exchange.items))
            if turn >= depth:
                low = (turn - depth) * size
                exchange.collect(area.slots(turn - depth, exchange.dtype), low, min(low + size, exchange.items))
            if turn < chunks + depth - 1:
                self._step(guard)
        return chunks

    def _publish(self, exchange: Exchange, area: Area, chunk: int) -> None:
        size = self._chunk_items(exchange, area)
        low = chunk * size
        exchange.publish(area.slots(chunk, exchange.dtype), low, min(low + size, exchange.items))

    @staticmethod
    def _chunk_items(exchange: Exchange, area: Area) -> int:
        return exchange.chunk_items(area.slot_bytes // exchange.dtype.itemsize)

    def _fitting(self, exchange: Exchange) -> Area | None:
        """The area that this collective goes through; None if that is the large one and it does not exist
        yet.
        """
        if exchange.items <= self._chunk_items(exchange, self._small):
            return self._small
        return self._large

    # -- memory --------------------------------------------------------------------------------------------

    def _share(self, purpose: str, make: Callable[[], Segment], guard: Guard) -> Segment:
        """A segment that the group's first rank makes and all map."""
        what = f"{guard.what}: {purpose} in shared memory"
        if self._own != 0:
            return self._membership.accept(purpose, 0, guard.deadline, what)
        segment = make()
        self._membership.offer(purpose, segment, range(1, self._ranks), guard.deadline, what)
        return segment

    def _make_large(self, guard: Guard) -> Area:
        if self._large is None:
            segment = self._share("buffers", self._large_segment, guard)
            slot = segment.nbytes // (_LARGE_GENERATIONS * self._ranks)
            self._large = Area(segment.memory, _LARGE_GENERATIONS, self._ranks, slot)
        return self._large

    def _large_segment(self) -> Segment:
        per_slot = _LARGE_GENERATIONS * self._ranks
        budget = buffer_budget()
        if budget is not None:
            slot = max(_aligned(budget // per_slot), LINE_BYTES * self._ranks)
            return Segment.create(segment_name(self._group, "buffers"), slot * per_slot)
        slot = SLOT_BYTES
        while True:
            try:
                return Segment.create(segment_name(self._group, "buffers"), slot * per_slot)
            except SharedMemoryError:
                if slot // 2 < _SMALLEST_SLOT:
                    raise
                slot //= 2  # nobody asked for a size: make do with less


class LocalTransport:
    """A group of one rank: the same exchanges without anybody to wait for."""

    def __init__(self) -> None:
        self._area = Area(np.zeros(SLOT_BYTES, dtype=np.uint8), 1, 1, SLOT_BYTES)

    def run(
        self, signature: header.Signature, sequence: int, arrival: float, exchange: Exchange, guard: Guard
    ) -> list[float]:
        """As `SharedTransport.run`; nothing can fail."""
        if exchange.is_uneven:
            table = exchange.table()
            if table[0] != table[1]:
                raise MismatchError(f"{guard.what}: sends {table[0]} elements to itself and expects {table[1]}")
            exchange.agree([table])
        self.exchange(exchange, guard)
        return [arrival]

    def exchange(self, exchange: Exchange, guard: Guard) -> None:
        """As `SharedTransport.exchange`."""
        slots = self._area.slots(0, exchange.dtype)
        size = exchange.chunk_items(slots.shape[1])
        for low in range(0, exchange.items, size):
            high = min(low + size, exchange.items)
            exchange.publish(slots, low, high)
            if exchange.combines:
                exchange.combine(slots, low, high)
            exchange.collect(slots, low, high)

    def last_seen(self, rank: int) -> str:
        return "this rank is alone"
