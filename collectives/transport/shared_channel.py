"""Point-to-point transfers inside a machine: a ring of chunks in shared memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import header
from ..arrival import Arrival
from ..guard import Guard
from .channel import Call, SendSource, settle
from .membership import Membership
from .shared_memory import Segment, segment_name
from .shared_transport import buffer_budget
from .signals import LINE_BYTES, Signals

_CHUNK_BYTES = 256 * 1024
_SMALLEST_CHUNK = 4096
_DEPTH = 4
_SENDER_HEADER, _RECEIVER_HEADER, _WRITTEN, _READ, _COUNTERS = 0, 1, 2, 3, 4


class _End:
    """What both ends share: the segment's parts."""

    def __init__(self, segment: Segment, peer: int) -> None:
        self._peer = peer
        board = header.header_bytes(1)
        start = _COUNTERS * LINE_BYTES
        data = start + 4 * board
        self._signals = Signals(segment, 0, _COUNTERS)
        slots = segment.memory[start:data].reshape(2, 2, board)
        self._boards = [[memoryview(slot) for slot in pair] for pair in slots]
        chunk = (segment.nbytes - data) // _DEPTH
        self._ring = segment.memory[data : data + chunk * _DEPTH].reshape(_DEPTH, chunk)
        self._chunk = chunk
        self._chunks = 0

    def _greet(self, side: int, call: Call, names: Callable[[int], str], guard: Guard) -> Arrival:
        """Show our header, wait for the other one; returns the peer's arrival."""
        pair = self._boards[call.sequence % 2]
        call.write(pair[side])
        self._signals.post(side, call.sequence)
        self._signals.wait(1 - side, call.sequence, guard.of_peer(self._peer))
        settle(pair[0], pair[1], names)
        return header.read_arrival(pair[1 - side])


class SharedSendEnd(_End):
    """See `channel.SendEnd`."""

    @classmethod
    def open(cls, membership: Membership, group: str, peer: int, guard: Guard) -> SharedSendEnd:
        """Make the channel's memory and have the receiver map it."""
        budget = buffer_budget()
        chunk = _CHUNK_BYTES if budget is None else min(_CHUNK_BYTES, max(_SMALLEST_CHUNK, budget // _DEPTH))
        nbytes = _COUNTERS * LINE_BYTES + 4 * header.header_bytes(1) + _DEPTH * chunk
        label = f"channel-{membership.own}-{peer}"
        segment = Segment.create(segment_name(group, label), nbytes)
        membership.offer(label, segment, [peer], guard.deadline, guard.what)
        return cls(segment, peer)

    def send(self, call: Call, source: SendSource, names: Callable[[int], str], guard: Guard) -> Arrival:
        """See `channel.SendEnd.send`."""
        other = self._greet(0, call, names, guard)
        on_delay = guard.of_peer(self._peer)
        for low in range(0, len(source), self._chunk):
            count = min(self._chunk, len(source) - low)
            self._signals.wait(_READ, max(0, self._chunks + 1 - _DEPTH), on_delay)
            source.read(low, self._ring[self._chunks % _DEPTH, :count])
            self._chunks += 1
            self._signals.post(_WRITTEN, self._chunks)
        return other


class SharedReceiveEnd(_End):
    """See `channel.ReceiveEnd`."""

    @classmethod
    def open(cls, membership: Membership, peer: int, guard: Guard) -> SharedReceiveEnd:
        """Take the memory that the sender offers with its first message."""
        label = f"channel-{peer}-{membership.own}"
        return cls(membership.accept(label, peer, guard.deadline, guard.what), peer)

    def receive(self, call: Call, target: np.ndarray, names: Callable[[int], str], guard: Guard) -> Arrival:
        """See `channel.ReceiveEnd.receive`."""
        other = self._greet(1, call, names, guard)
        on_delay = guard.of_peer(self._peer)
        for low in range(0, len(target), self._chunk):
            count = min(self._chunk, len(target) - low)
            self._signals.wait(_WRITTEN, self._chunks + 1, on_delay)
            target[low : low + count] = self._ring[self._chunks % _DEPTH, :count]
            self._chunks += 1
            self._signals.post(_READ, self._chunks)
        return other
