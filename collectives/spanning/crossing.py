"""What an operation needs to move data: exchanges among the ranks of this machine, transfers to and from others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..exchange import AllToAll, Exchange
from ..guard import Guard
from ..transport.lanes import PIECE_BYTES, Lanes
from ..transport.shared_transport import LocalTransport, SharedTransport
from .layout import Layout

Transfer = tuple[int, np.ndarray]
"""A place on another machine, and the array to send there or to fill from there."""


class Crossing:
    """One operation of one rank.

    Arrays to send must not change until `finish`, arrays to fill must be contiguous. What was posted goes whatever this
    rank waits for meanwhile, so ranks that send much to each other never block each other.
    """

    def __init__(
        self,
        layout: Layout,
        local: SharedTransport | LocalTransport,
        lanes: Lanes,
        lane: int,
        guard: Guard,
        mates_guard: Guard,
    ) -> None:
        self.layout = layout
        self._local = local
        self._lanes = lanes
        self._lane = lane
        self._guard = guard
        self._mates_guard = mates_guard
        self._posted: set[int] = set()

    # -- within the machine --------------------------------------------------------------------------------

    def exchange(self, exchange: Exchange) -> None:
        """An exchange among the ranks of this machine, which count by their index there."""
        self._local.exchange(exchange, self._mates_guard)

    def hand_over(
        self, blocks: Sequence[np.ndarray], targets: Sequence[np.ndarray], lengths: Sequence[Sequence[int]]
    ) -> None:
        """`blocks[i]` goes to the rank with index i of this machine, `targets[i]` is filled from there.

        `lengths[i][j]` elements go from index i to index j.
        """
        exchange = AllToAll(self.layout.index, len(self.layout.mates), blocks, targets, targets[0].dtype)
        exchange.agree([[*sent, *received] for sent, received in zip(lengths, zip(*lengths, strict=True), strict=True)])
        self.exchange(exchange)

    # -- between machines ----------------------------------------------------------------------------------

    def post(self, place: int, array: np.ndarray) -> None:
        """Send an array, as soon as the other end has room."""
        if len(array):
            self._posted.add(place)
            self._lanes.post(place, self._lane, _pieces(array))

    def receive(self, place: int, array: np.ndarray) -> None:
        """Fill an array with what a rank has sent."""
        self.receive_all([(place, array)])

    def receive_all(self, transfers: Sequence[Transfer]) -> None:
        """Fill several arrays, in whatever order their data comes; one per place."""
        incoming = {place: deque(_pieces(array)) for place, array in transfers if len(array)}
        while incoming:
            version = self._lanes.version
            before = len(incoming), sum(map(len, incoming.values()))
            for place, pieces in list(incoming.items()):
                while pieces and self._take(place, pieces[0]):
                    pieces.popleft()
                if not pieces:
                    del incoming[place]
            if before == (len(incoming), sum(map(len, incoming.values()))):
                self._wait(version, lambda: [p for p in incoming if not self._lanes.has_arrived(p, self._lane)])

    def finish(self) -> None:
        """Return when all that was posted is sent."""
        while True:
            version = self._lanes.version
            self._posted = {place for place in self._posted if not self._lanes.is_sent(place, self._lane)}
            if not self._posted:
                return
            self._wait(version, lambda: [p for p in self._posted if not self._lanes.is_sent(p, self._lane)])

    def _take(self, place: int, target: np.ndarray) -> bool:
        found = self._lanes.take(place, self._lane, len(target))
        if found is None:
            return False
        target[:] = found
        return True

    def _wait(self, version: int, late: Callable[[], list[int]]) -> None:
        self._lanes.wait(version, lambda: self._guard(lambda: sorted(late())))


def _pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    data = array.view(np.uint8)
    for low in range(0, len(data), PIECE_BYTES):
        yield data[low : low + PIECE_BYTES]
