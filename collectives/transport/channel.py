"""Point-to-point transfers from one rank to another.

For each message both ends first show their headers; data flows only once they agree, so a mismatch is an
error on both sides and the next message starts clean. Messages of a channel go in order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from .. import header
from ..arrival import Arrival
from ..errors import MismatchError
from ..guard import Guard


class Call(NamedTuple):
    """What one end tells the other of a message: its number on the channel, and as which send or recv it was issued."""

    sequence: int
    signature: header.Signature
    arrival: Arrival
    tag: int

    def write(self, slot: memoryview) -> None:
        """As a header."""
        header.write(slot, self.sequence, self.signature, self.arrival, (self.tag,))


class SendEnd(Protocol):
    """The sender's end."""

    def send(self, call: Call, source: SendSource, names: Callable[[int], str], guard: Guard) -> Arrival:
        """Send a message; returns the receiver's arrival.

        Raises:
            MismatchError: the receiver expects something else.
            PeerLost, CollectiveTimeout: the receiver has gone or does not come.
        """
        ...


class ReceiveEnd(Protocol):
    """The receiver's end."""

    def receive(self, call: Call, target: np.ndarray, names: Callable[[int], str], guard: Guard) -> Arrival:
        """Receive a message into `target` (bytes); returns the sender's arrival. Raises as `SendEnd.send`."""
        ...


class SendSource:
    """The bytes of a message. `detach` copies what is left of them, so that the tensor may change."""

    def __init__(self, data: np.ndarray) -> None:
        self._data = data
        self._lock = threading.Lock()
        self._is_detached = False
        self._is_sent = False

    def __len__(self) -> int:
        return len(self._data)

    def detach(self) -> None:
        with self._lock:
            if not self._is_sent and not self._is_detached:
                self._data = self._data.copy()
                self._is_detached = True

    def read(self, low: int, target: np.ndarray) -> None:
        """Copy `len(target)` bytes from `low` on."""
        with self._lock:
            target[:] = self._data[low : low + len(target)]
            self._is_sent = low + len(target) >= len(self._data)


def settle(sent: memoryview, wanted: memoryview, names: Callable[[int], str]) -> None:
    """Compare the headers of sender (`names(0)`) and receiver (`names(1)`).

    Raises:
        MismatchError: dtype, number of elements or tag differ.
    """
    pair = (sent, wanted)
    tags = [header.read_table(slot, 1)[0] for slot in pair]
    if header.read_payload(sent) != header.read_payload(wanted) or tags[0] != tags[1]:
        told = f" with tags {tags[0]} and {tags[1]}" if tags[0] != tags[1] else ""
        raise MismatchError(
            f"ranks disagree: {names(0)} called {header.describe(sent)}, "
            f"{names(1)} called {header.describe(wanted)}{told}"
        )
