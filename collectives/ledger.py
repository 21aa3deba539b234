"""Modelled time of finished collectives, accounted on the card in the order in which they were issued.

A collective may finish in a background thread at any moment of real time. The card's clock must not depend on
that, so accounts are only settled at places that the program's own order fixes: a wait, a fence, the end of
the group.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from device import interop


@dataclass(frozen=True)
class Account:
    """One collective on this card's timeline; times in modelled seconds.

    `begin` is this rank's arrival, `end` the modelled end, `waited` the time until the last rank's arrival.
    """

    sequence: int
    operation: str
    nbytes: int
    begin: float
    end: float
    waited: float


class Ledger:
    """Accounts of one group or channel, between `ranks`, that are not settled yet."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self._ranks = tuple(ranks)
        self._open: deque[Account] = deque()
        self._lock = threading.Lock()

    def enter(self, account: Account) -> None:
        self._open.append(account)

    def settle(self, sequence: int) -> None:
        """Account everything up to and including a sequence number."""
        while self._open:
            with self._lock:
                if not self._open or self._open[0].sequence > sequence:
                    return
                account = self._open.popleft()
            interop.collective_done(
                account.operation, account.nbytes, self._ranks, account.begin, account.end, account.waited
            )
