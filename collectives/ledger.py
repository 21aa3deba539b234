"""Transfers of one line, accounted on the card in the order in which they were issued.

A collective may finish in a background thread at any moment of real time. The card's clock must not depend on
that, so accounts are only settled at places that the program's own order fixes: a wait, a fence, the end of
the group.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Sequence

from device import interop
from device.fences import Extent
from device.network import Transfer
from device.timeline import STREAM

from .arrival import Arrival
from .timing import Line, SharedPorts

ports = SharedPorts()
"""Those of this process's card."""

_untold: Counter[tuple[str, str, tuple[int, ...]]] = Counter()
"""Transfers without a card before this process had one: operation, label and ranks of the line."""


class Ledger:
    """Transfers of one line that are over and not settled yet, by number."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self._open: deque[tuple[int, str, Transfer | None]] = deque()
        self._lock = threading.Lock()

    def arrive(self, sequence: int, operation: str, pattern: str, nbytes: int, extents: Sequence[Extent]) -> Arrival:
        """The card is to take part in a transfer with that memory."""
        _tell_absences()
        moment = interop.collective_arrival(operation, nbytes, self.line.label, self.line.ranks, extents)
        return ports.issue(self.line, sequence, pattern, nbytes, moment)

    def arrive_inside(self, sequence: int, operation: str, pattern: str, nbytes: int) -> Arrival:
        """The card is to take part in a transfer that belongs to the recipe that runs now."""
        _tell_absences()
        moment = interop.collective_inside(operation, nbytes, self.line.label, self.line.ranks)
        return ports.issue(self.line, sequence, pattern, nbytes, moment)

    def stay_away(self, operation: str) -> None:
        """This rank takes part in a transfer with host memory, without its card."""
        if interop.has_card():
            _tell_absences()
            interop.collectives_missed(operation, 1, self.line.label, self.line.ranks)
        else:
            _untold[operation, self.line.label, self.line.ranks] += 1

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


def _tell_absences() -> None:
    """The card's log begins with what others may have done before."""
    for (operation, label, ranks), count in _untold.items():
        interop.collectives_missed(operation, count, label, ranks)
    _untold.clear()
