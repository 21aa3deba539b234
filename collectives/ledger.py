"""Transfers of one line, accounted on the card in the order in which they were issued.

A collective may finish in a background thread at any moment of real time. The card's clock must not depend on
that, so accounts are only settled at places that the program's own order fixes: a wait, a fence, the end of
the group.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from device import interop
from device.fences import Extent
from device.network import Transfer
from device.timeline import STREAM

from .arrival import Arrival
from .timing import Line, SharedPorts

ports = SharedPorts()
"""Those of this process's card."""


class Ledger:
    """Transfers of one line that are over and not settled yet, by number."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self._open: deque[tuple[int, str, Transfer | None]] = deque()
        self._absences = 0  # transfers since the last one with this card
        self._lock = threading.Lock()

    def arrive(self, sequence: int, operation: str, pattern: str, nbytes: int, extents: Sequence[Extent]) -> Arrival:
        """The card is to take part in a transfer with that memory."""
        self._tell_absences(operation)
        moment = interop.collective_arrival(operation, nbytes, self.line.label, self.line.ranks, extents)
        return ports.issue(self.line, sequence, pattern, nbytes, moment)

    def arrive_inside(self, sequence: int, operation: str, pattern: str, nbytes: int) -> Arrival:
        """The card is to take part in a transfer that belongs to the recipe that runs now."""
        self._tell_absences(operation)
        moment = interop.collective_inside(operation, nbytes, self.line.label, self.line.ranks)
        return ports.issue(self.line, sequence, pattern, nbytes, moment)

    def _tell_absences(self, operation: str) -> None:
        if self._absences:
            interop.collectives_missed(operation, self._absences, self.line.label, self.line.ranks)
            self._absences = 0

    def stay_away(self) -> None:
        """This rank takes part in a transfer with host memory, without its card."""
        self._absences += 1

    def enter(self, sequence: int, transfer: Transfer) -> None:
        """A transfer with the card is over."""
        self._open.append((sequence, transfer.operation, transfer))

    def fail(self, sequence: int, operation: str) -> None:
        """An operation has failed for all its ranks, and the next one will not."""
        self._open.append((sequence, operation, None))

    def settle(self, sequence: int, waits: str = STREAM) -> None:
        """Account everything up to and including a sequence number; `waits` goes on after each of them."""
        while self._open:
            with self._lock:
                if not self._open or self._open[0][0] > sequence:
                    return
                number, operation, transfer = self._open.popleft()
            was_issued = ports.settle(self.line, number)
            if transfer is not None:
                interop.collective_done(transfer, waits)
            elif was_issued:
                interop.collective_failed(operation, self.line.label, self.line.ranks)

    def close(self) -> None:
        """Nothing more will be accounted."""
        ports.drop(self.line)
