"""Collectives among ranks of one machine, through shared memory.

Each operation begins with a barrier at which every rank shows its header (and, where there is room, its data), so
ranks that disagree find out before anything is read. Small operations end there; larger ones go on through bounded
buffers in chunks. Both are native (`csrc/`); here is what they need, and what is said when ranks disagree or are late.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable

from device.errors import ConfigurationError

from .. import header
from ..arrival import Arrival
from ..errors import MismatchError, SharedMemoryError
from ..exchange import Exchange
from ..guard import Guard
from . import native
from .agreement import describe_last, disagreement
from .membership import Membership
from .plans import Planner
from .shared_memory import MIB, Segment, segment_name
from .subgroup import Subgroup

_LEAST_LARGE_BYTES = 256 * 1024
_LINE_BYTES = 64
_SMALL_GENERATIONS = _BOARD_GENERATIONS = 2


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


class SharedTransport:
    """One group's shared memory. Operations are run one at a time, in the same order on every rank."""

    def __init__(self, membership: Membership | Subgroup, group: str, guard: Guard) -> None:
        self._membership = membership
        self._group = group
        self._own = own = membership.own
        self._ranks = ranks = len(membership.peers)
        self._library = native.library()
        board_bytes = header.header_bytes(ranks)
        signals_bytes = self._library.hccl_signals_bytes(ranks)
        layout = [
            signals_bytes,
            _BOARD_GENERATIONS * ranks * board_bytes,
            _SMALL_GENERATIONS * ranks * native.SMALL_BYTES,
        ]
        self._segment = self._share(
            "signals", lambda: Segment.create(segment_name(group, "signals"), sum(layout)), guard
        )
        self._large: Segment | None = None
        boards = self._segment.memory[layout[0] : layout[0] + layout[1]].reshape(_BOARD_GENERATIONS, ranks, board_bytes)
        self._boards = [[memoryview(slot) for slot in generation] for generation in boards]
        self._arrivals = ctypes.create_string_buffer(ranks * header.ARRIVAL_BYTES)
        self._missing_ranks = (ctypes.c_int32 * ranks)()
        begin = self._segment.address
        self._plane = native.Plane(
            own=own,
            ranks=ranks,
            looks=native.looks(ranks),
            signals=begin,
            boards=begin + layout[0],
            small=begin + layout[0] + layout[1],
            board_bytes=board_bytes,
            small_bytes=native.SMALL_BYTES,
            slot_limit=native.SLOT_BYTES,
            key_bytes=header.KEY_BYTES,
            arrival_offset=header.ARRIVAL_OFFSET,
            shape_offset=header.SHAPE_OFFSET,
            table_offset=header.TABLE_OFFSET,
            arrivals=ctypes.addressof(self._arrivals),
        )
        self._address = ctypes.addressof(self._plane)
        self._planner = Planner(self._plane)

    def run(
        self, signature: header.Signature, sequence: int, arrival: Arrival, exchange: Exchange, guard: Guard
    ) -> list[Arrival]:
        """Take part in a collective; returns every rank's arrival.

        Raises:
            MismatchError: ranks disagree; all of them get this error, and the group stays usable.
            PeerLost, CollectiveTimeout, SharedMemoryError: the group is of no use any more.
        """
        if exchange.moves_data:
            self._planner.fill(exchange)
        else:
            self._planner.clear(exchange)
        key, shape = header.packed(signature)
        table = exchange.table()
        packed = struct.pack(f"<{len(table)}q", *table) if table else b""
        told = header.pack_arrival(arrival)
        status = self._library.hccl_run(self._address, sequence, key, shape, told, packed, len(packed))
        self._finish(status, guard)
        if table:
            exchange.items = self._plane.plan.longest // exchange.dtype.itemsize
        return header.unpack_arrivals(self._arrivals)

    def exchange(self, exchange: Exchange, guard: Guard) -> None:
        """Move the data of an exchange on which the ranks agree already (`agree` was called where it is uneven).

        Raises:
            PeerLost, CollectiveTimeout, SharedMemoryError: the group is of no use any more.
        """
        self._planner.fill(exchange, is_agreed=True)
        self._finish(self._library.hccl_move(self._address), guard)

    def last_seen(self, rank: int) -> str:
        """What a rank's latest header says, in words."""
        slots = [board[rank] for board in self._boards]
        return describe_last(self._membership, rank, max(slots, key=header.read_sequence))

    # -- while it takes long -------------------------------------------------------------------------------

    def _finish(self, status: int, guard: Guard) -> None:
        while status != native.DONE:
            if status == native.DISAGREED:
                board = self._boards[self._plane.shown % _BOARD_GENERATIONS]
                raise MismatchError(
                    disagreement(self._membership, self._group, board, bool(self._plane.plan.is_uneven))
                )
            if status == native.NEEDS_BUFFERS:
                self._make_large(guard)
            else:
                guard(self._missing)
            status = self._library.hccl_continue(self._address)

    def _missing(self) -> list[int]:
        count = self._library.hccl_missing(self._address, ctypes.addressof(self._missing_ranks))
        return self._missing_ranks[:count]

    # -- memory --------------------------------------------------------------------------------------------

    def _share(self, purpose: str, make: Callable[[], Segment], guard: Guard) -> Segment:
        """A segment that the group's first rank makes and all map."""
        what = f"{guard.what}: {purpose} in shared memory"
        if self._own != 0:
            return self._membership.accept(purpose, 0, guard.deadline, what)
        segment = make()
        self._membership.offer(purpose, segment, range(1, self._ranks), guard.deadline, what)
        return segment

    def _make_large(self, guard: Guard) -> None:
        self._large = self._share("buffers", self._large_segment, guard)
        self._plane.large, self._plane.large_bytes = self._large.address, self._large.nbytes

    def _large_segment(self) -> Segment:
        budget, name = buffer_budget(), segment_name(self._group, "buffers")
        if budget is not None:
            return Segment.create(name, max(budget, _LINE_BYTES * self._ranks**2))
        nbytes = native.LARGE_BYTES
        while True:
            try:
                return Segment.create(name, nbytes)
            except SharedMemoryError:
                nbytes //= 2  # nobody asked for a size: make do with less
                if nbytes < _LEAST_LARGE_BYTES:
                    raise


class LocalTransport:
    """A group of one rank: the same exchanges without anybody to wait for."""

    def run(
        self, signature: header.Signature, sequence: int, arrival: Arrival, exchange: Exchange, guard: Guard
    ) -> list[Arrival]:
        """As `SharedTransport.run`; only split tables can disagree."""
        if exchange.is_uneven:
            table = exchange.table()
            if table[0] != table[1]:
                raise MismatchError(f"{guard.what}: sends {table[0]} elements to itself and expects {table[1]}")
            exchange.agree([table])
        self.exchange(exchange, guard)
        return [arrival]

    def exchange(self, exchange: Exchange, guard: Guard) -> None:
        """As `SharedTransport.exchange`."""
        if exchange.moves_data:
            exchange.move_own()

    def last_seen(self, rank: int) -> str:
        return "this rank is alone"
