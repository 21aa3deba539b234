"""Collectives among ranks on several machines."""

from __future__ import annotations

import numpy as np

from .. import header
from ..arrival import Arrival
from ..errors import MismatchError
from ..exchange import AllGather, AllReduce, AllToAll, Broadcast, Exchange, Gather, ReduceScatter, Scatter
from ..guard import Guard
from ..transport.agreement import Table, describe_last, disagreement, split_difference, split_tables
from ..transport.lanes import DATA, HEADERS
from ..transport.membership import Membership
from ..transport.native import SMALL_BYTES
from ..transport.shared_transport import LocalTransport, SharedTransport
from ..transport.subgroup import Subgroup
from . import movements
from .accumulate import Accumulator
from .crossing import Crossing
from .header_board import HeaderBoard
from .layout import Layout
from .rails import AllReducePlan, ReduceScatterPlan, reduce_on_rails

_GRACE_S = 1.0  # for a rank that waits for one that waits for the network to hear what that one says


class SpanningTransport:
    """One group's data plane where its ranks are on several machines; same interface as `SharedTransport`.

    Every operation begins with the exchange of all headers, so ranks that disagree find out before any data moves.
    """

    def __init__(self, membership: Membership, group: str, guard: Guard) -> None:
        assert membership.lanes is not None
        self._membership = membership
        self._group = group
        self._lanes = membership.lanes
        self._layout = Layout([peer.machine for peer in membership.peers], membership.own)
        self._local: SharedTransport | LocalTransport = LocalTransport()
        if len(self._layout.mates) > 1:
            mates = Subgroup(membership, self._layout.mates)
            self._local = SharedTransport(mates, group, guard.within(self._layout.mates, _GRACE_S))
        self._board = HeaderBoard(self._layout)

    def run(
        self, signature: header.Signature, sequence: int, arrival: Arrival, exchange: Exchange, guard: Guard
    ) -> list[Arrival]:
        """As `SharedTransport.run`."""
        slots = self._board.slots
        key = header.write(slots[self._layout.own], sequence, signature, arrival, exchange.table())
        self._board.exchange(self._crossing(HEADERS, guard))
        tables = split_tables(slots) if exchange.is_uneven else []
        if not all(bytes(slot[: len(key)]) == key for slot in slots) or (
            tables and split_difference(self._membership, slots, tables)
        ):
            raise MismatchError(disagreement(self._membership, self._group, slots, exchange.is_uneven))
        arrivals = [header.read_arrival(slot) for slot in slots]
        if tables:
            exchange.agree(tables)
        if exchange.items and exchange.moves_data:
            self._move(self._crossing(DATA, guard), signature, exchange, tables)
        return arrivals

    def last_seen(self, rank: int) -> str:
        """What a rank's latest header here says, in words."""
        return describe_last(self._membership, rank, self._board.slots[rank])

    def _crossing(self, lane: int, guard: Guard) -> Crossing:
        mates_guard = guard.within(self._layout.mates, _GRACE_S)
        return Crossing(self._layout, self._local, self._lanes, lane, guard, mates_guard)

    def _move(self, crossing: Crossing, signature: header.Signature, exchange: Exchange, tables: list[Table]) -> None:
        if isinstance(exchange, Gather):
            movements.gather(crossing, exchange)
        elif isinstance(exchange, AllGather):
            movements.all_gather(crossing, exchange)
        elif isinstance(exchange, Scatter):
            movements.scatter(crossing, exchange)
        elif isinstance(exchange, Broadcast):
            movements.broadcast(crossing, exchange)
        elif isinstance(exchange, AllToAll):
            movements.all_to_all(crossing, exchange, tables)
        elif isinstance(exchange, AllReduce) and exchange.data.nbytes <= SMALL_BYTES:
            self._reduce_small(crossing, exchange)
        elif isinstance(exchange, AllReduce):
            reduce_on_rails(crossing, self._accumulator(signature), AllReducePlan(exchange, self._layout))
        elif isinstance(exchange, ReduceScatter):
            reduce_on_rails(crossing, self._accumulator(signature), ReduceScatterPlan(exchange, self._layout))
        else:
            raise NotImplementedError(type(exchange).__name__)

    def _reduce_small(self, crossing: Crossing, exchange: AllReduce) -> None:
        """Everyone gets all contributions and adds them up itself."""
        rows = list(np.empty((self._layout.ranks, exchange.items), exchange.dtype))
        movements.all_gather(crossing, AllGather(self._layout.own, self._layout.ranks, exchange.data, rows))
        if exchange.root is None or exchange.root == self._layout.own:
            exchange.reduction(exchange.data, rows)

    @staticmethod
    def _accumulator(signature: header.Signature) -> Accumulator:
        assert signature.dtype is not None
        return Accumulator(signature.reduction, signature.dtype)
