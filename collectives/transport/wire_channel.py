"""Point-to-point transfers to another machine: a lane for the message, one back for the receiver's header."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import header
from ..arrival import Arrival
from ..guard import Guard
from .channel import Call, SendSource, settle
from .lanes import MESSAGE_BACK, MESSAGE_FORWARD, PIECE_BYTES, Lanes


class _End:
    def __init__(self, lanes: Lanes, peer: int, sends_on: int, takes_from: int) -> None:
        self._lanes = lanes
        self._peer = peer
        self._sends_on = sends_on
        self._takes_from = takes_from

    def _greet(self, call: Call, guard: Guard) -> tuple[memoryview, memoryview]:
        """Show our header, wait for the other one; returns both."""
        own = memoryview(bytearray(header.header_bytes(1)))
        call.write(own)
        self._send(bytes(own), guard)
        return own, memoryview(self._take(len(own), guard).tobytes())

    def _send(self, payload: np.ndarray | bytes, guard: Guard) -> None:
        lanes, peer, lane = self._lanes, self._peer, self._sends_on
        lanes.post(peer, lane, (payload,), copy=False)
        while not lanes.is_sent(peer, lane):
            self._wait(lanes.version, lambda: not lanes.is_sent(peer, lane), guard)

    def _take(self, nbytes: int, guard: Guard) -> np.ndarray:
        lanes, peer, lane = self._lanes, self._peer, self._takes_from
        while True:
            version = lanes.version
            found = lanes.take(peer, lane, nbytes)
            if found is not None:
                return found
            self._wait(version, lambda: not lanes.has_arrived(peer, lane), guard)

    def _wait(self, version: int, is_late: Callable[[], bool], guard: Guard) -> None:
        self._lanes.wait(version, lambda: guard(lambda: [self._peer] if is_late() else []))


class WireSendEnd(_End):
    """See `channel.SendEnd`."""

    def __init__(self, lanes: Lanes, peer: int) -> None:
        super().__init__(lanes, peer, MESSAGE_FORWARD, MESSAGE_BACK)

    def send(self, call: Call, source: SendSource, names: Callable[[int], str], guard: Guard) -> Arrival:
        """See `channel.SendEnd.send`."""
        own, other = self._greet(call, guard)
        settle(own, other, names)
        for low in range(0, len(source), PIECE_BYTES):
            payload = np.empty(min(PIECE_BYTES, len(source) - low), np.uint8)
            source.read(low, payload)
            self._send(payload, guard)
        return header.read_arrival(other)


class WireReceiveEnd(_End):
    """See `channel.ReceiveEnd`."""

    def __init__(self, lanes: Lanes, peer: int) -> None:
        super().__init__(lanes, peer, MESSAGE_BACK, MESSAGE_FORWARD)

    def receive(self, call: Call, target: np.ndarray, names: Callable[[int], str], guard: Guard) -> Arrival:
        """See `channel.ReceiveEnd.receive`."""
        own, other = self._greet(call, guard)
        settle(other, own, names)
        for low in range(0, len(target), PIECE_BYTES):
            part = target[low : low + PIECE_BYTES]
            part[:] = self._take(len(part), guard)
        return header.read_arrival(other)
