"""Streams of data between a rank and those of its group on other machines, with credits.

A lane leads from one rank to another and has a number; its pieces arrive in order. At most `WINDOW` of them are under
way or waiting to be taken, so a slow receiver costs no more than `WINDOW` x `PIECE_BYTES` per lane at each end.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..errors import CollectiveError

PIECE_BYTES = 1 << 20
WINDOW = 4
HEADERS, DATA, MESSAGE_FORWARD, MESSAGE_BACK = range(4)
"""Lanes of a group between two ranks: headers and data of collectives; messages from sender to receiver, and the
receiver's headers.
"""
_LANES = 4
_SLICE_S = 0.05


class _Incoming:
    """What has come on one lane."""

    def __init__(self) -> None:
        self.waiting: deque[Any] = deque()
        self.received = 0
        self.taken = 0
        self.acknowledged = 0


class _Outgoing:
    """What is to go on one lane, how much has gone, and how much of it the other end has taken."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Any, bool]] = deque()
        self.sent = 0
        self.taken = 0


class Lanes:
    """All lanes of one group at one rank.

    `keys` has the public key (Z85) of each rank on another machine, by its place in the group. `transmit_piece(place,
    lane, number, payload, copy)` and `transmit_credit(place, lane, number)` send, and return False where that is not
    possible now.
    """

    def __init__(
        self,
        keys: Mapping[int, bytes],
        transmit_piece: Callable[[int, int, int, Any, bool], bool],
        transmit_credit: Callable[[int, int, int], bool],
    ) -> None:
        self._keys = dict(keys)
        self._transmit_piece = transmit_piece
        self._transmit_credit = transmit_credit
        self._news = threading.Condition()
        self._version = 0
        self._incoming = {(place, lane): _Incoming() for place in keys for lane in range(_LANES)}
        self._outgoing = {(place, lane): _Outgoing() for place in keys for lane in range(_LANES)}

    # -- for the thread that receives ----------------------------------------------------------------------

    def check_sender(self, place: int, key: bytes) -> None:
        """Raises ValueError: the rank at `place` is not the owner of this key."""
        if self._keys.get(place) != key:
            raise ValueError(f"a message in the name of place {place} came from somebody else")

    def receive(self, place: int, lane: int, number: int, payload: Any) -> None:
        """A piece has come. Raises ValueError: it is not the next one, or nobody allowed it."""
        incoming = self._incoming[place, lane]
        with self._news:
            if number != incoming.received:
                raise ValueError(f"piece {number} of lane {lane} from place {place}: {incoming.received} is next")
            if incoming.received - incoming.acknowledged >= WINDOW:
                raise ValueError(f"piece {number} of lane {lane} from place {place} is beyond the window")
            incoming.received += 1
            incoming.waiting.append(payload)
            self._wake()

    def receive_credit(self, place: int, lane: int, number: int) -> None:
        """The other end has taken so many pieces. Raises ValueError: more than were sent."""
        outgoing = self._outgoing[place, lane]
        with self._news:
            if not outgoing.taken <= number <= outgoing.sent:
                raise ValueError(f"place {place} says it has taken {number} of {outgoing.sent} pieces")
            outgoing.taken = number
            self._push(place, lane)
            self._wake()

    def _wake(self) -> None:
        self._version += 1
        self._news.notify_all()

    # -- for whoever sends and takes -----------------------------------------------------------------------

    def post(self, place: int, lane: int, pieces: Iterable[Any], copy: bool = True) -> None:
        """Send pieces of at most PIECE_BYTES each, now or when the other end has room; see `is_sent`.

        Their memory must not change until then, or without `copy` ever again.
        """
        with self._news:
            self._outgoing[place, lane].waiting.extend((piece, copy) for piece in pieces)
            self._push(place, lane)

    def is_sent(self, place: int, lane: int) -> bool:
        """Has everything gone that was posted?"""
        if not self._outgoing[place, lane].waiting:
            return True
        with self._news:
            self._push(place, lane)
            return not self._outgoing[place, lane].waiting

    def _push(self, place: int, lane: int) -> None:
        # Also called by the receiving thread when there is room again: whoever has posted something may be waiting for
        # a rank of its own machine, which waits for what was posted.
        outgoing = self._outgoing[place, lane]
        while outgoing.waiting and outgoing.sent - outgoing.taken < WINDOW:
            payload, copy = outgoing.waiting[0]
            if not self._transmit_piece(place, lane, outgoing.sent, payload, copy):
                return
            outgoing.sent += 1
            outgoing.waiting.popleft()

    def has_arrived(self, place: int, lane: int) -> bool:
        return bool(self._incoming[place, lane].waiting)

    def take(self, place: int, lane: int, nbytes: int) -> np.ndarray | None:
        """The next piece as bytes (read-only), of a length that was agreed before; None if none has come.

        Raises:
            CollectiveError: it has another length.
        """
        incoming = self._incoming[place, lane]
        with self._news:
            if not incoming.waiting:
                return None
            payload = np.frombuffer(incoming.waiting.popleft(), dtype=np.uint8)
            incoming.taken += 1
            is_due = incoming.taken - incoming.acknowledged >= WINDOW // 2
            before, number = incoming.acknowledged, incoming.taken
            if is_due:
                incoming.acknowledged = number  # first, for the next piece may be quicker than we are
        if is_due and not self._transmit_credit(place, lane, number):
            incoming.acknowledged = before
        if len(payload) != nbytes:
            raise CollectiveError(f"{len(payload)} bytes came from another machine where {nbytes} were agreed")
        return payload

    @property
    def version(self) -> int:
        """Changes whenever something comes."""
        return self._version

    def wait(self, version: int, on_delay: Callable[[], None]) -> None:
        """Return when something has come since `version` was current, or after a while, then having called
        `on_delay`, which may raise.
        """
        with self._news:
            if self._version == version:
                self._news.wait(_SLICE_S)
            is_late = self._version == version
        if is_late:
            on_delay()
