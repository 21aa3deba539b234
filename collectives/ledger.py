"""Finished transfers, accounted on the card in the order in which they were issued.

A collective may finish in a background thread at any moment of real time. The card's clock must not depend on
that, so accounts are only settled at places that the program's own order fixes: a wait, a fence, the end of
the group.
"""

from __future__ import annotations

import threading
from collections import deque

from device import interop
from device.network import Transfer
from device.timeline import NOBODY, STREAM

from .timing import Line, SharedPorts

ports = SharedPorts()
"""Those of this process's card."""


class Ledger:
    """Transfers of one line that are over and not settled yet, by number."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self._open: deque[tuple[int, Transfer]] = deque()
        self._lock = threading.Lock()

    def enter(self, sequence: int, transfer: Transfer) -> None:
        self._open.append((sequence, transfer))

    def settle(self, sequence: int, waits: str = STREAM) -> None:
        """Account everything up to and including a sequence number; `waits` goes on after the last of it."""
        while self._open:
            with self._lock:
                if not self._open or self._open[0][0] > sequence:
                    return
                number, transfer = self._open.popleft()
                is_last = not self._open or self._open[0][0] > sequence
            ports.settle(self.line, number)
            interop.collective_done(transfer, waits if is_last else NOBODY)
