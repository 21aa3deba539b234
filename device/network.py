"""One card's network ports in modelled time: collectives and messages, beside what the card computes.

A transfer begins when the last of its ranks is ready and its ports are free; while it runs, the card computes on. Both
need the card's memory: max-min fair shares of the HBM's bandwidth give the ports what they ask for, as they ask for
less than half of it, and a recipe that wants more than what is left takes longer by as much.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

REMEMBERED = 1024  # launches of which it is known when they ran
COVERED = 64  # intervals in which the ports were busy; older ones lie behind whatever still comes


class Transfer(NamedTuple):
    """A collective or a message, as one of its ranks sees it. Moments in modelled seconds.

    Attributes:
        operation: as the process group names it: all_reduce, send.
        nbytes: its size, as `FabricModel.seconds` counts it.
        group: label of the process group.
        ranks: who takes part, as the whole job counts them.
        begin: from then on this rank's data was ready.
        met: the last rank's data was ready.
        start: its ports were free.
        end: it is over.
        last: the rank that came last; None where this one waited for nobody.
        hbm_bytes_per_s: what it moves in this card's memory while it runs.
    """

    operation: str
    nbytes: int
    group: str
    ranks: tuple[int, ...]
    begin: float
    met: float
    start: float
    end: float
    last: int | None = None
    hbm_bytes_per_s: float = 0.0

    @property
    def seconds(self) -> float:
        """On the network."""
        return self.end - self.start

    @property
    def waited(self) -> float:
        """For the last rank, in seconds."""
        return self.met - self.begin


class _Launch(NamedTuple):
    stream: int
    start: float
    end: float
    hbm_share: float


class NetworkPorts:
    """What runs on the ports; `hbm_bytes_per_s` is the bandwidth of the card's memory."""

    def __init__(self, hbm_bytes_per_s: float) -> None:
        self.free = 0.0
        self.busy = 0.0  # seconds in which any of them carried something
        self._hbm_bytes_per_s = hbm_bytes_per_s
        self._launches: deque[_Launch] = deque(maxlen=REMEMBERED)
        self._covered: list[tuple[float, float]] = []  # apart from each other
        self._latest = -1.0  # end of the last of them

    def computed(self, stream: int, start: float, end: float, hbm_share: float) -> None:
        """The card computes from `start` to `end`, and needs that share of its memory's bandwidth."""
        if end > start and hbm_share > 0:
            self._launches.append(_Launch(stream, start, end, hbm_share))

    def carry(self, transfer: Transfer) -> dict[int, float]:
        """A transfer ran: by how many seconds what the card computed meanwhile took longer, for each stream."""
        self.free = max(self.free, transfer.end)
        self.busy += self._cover(transfer.start, transfer.end)
        share = transfer.hbm_bytes_per_s / self._hbm_bytes_per_s
        lost: dict[int, float] = {}
        if share <= 0:
            return lost
        for launch in reversed(self._launches):
            if launch.end <= transfer.start:
                break  # so did all before: the engines do one thing at a time
            overlap = min(launch.end, transfer.end) - max(launch.start, transfer.start)
            excess = launch.hbm_share + share - 1.0
            if overlap > 0 and excess > 0:
                lost[launch.stream] = lost.get(launch.stream, 0.0) + overlap * excess
        return lost

    def _cover(self, start: float, end: float) -> float:
        """Seconds of an interval in which the ports were not busy with something else."""
        alone = end - start
        if start > self._latest:  # behind everything, as mostly
            self._covered.append((start, end))
            del self._covered[:-COVERED]
            self._latest = end
            return alone
        apart = []
        for low, high in self._covered:
            if high < start or end < low:
                apart.append((low, high))
                continue
            alone -= min(end, high) - max(start, low)
            start, end = min(start, low), max(end, high)
        self._covered = [*apart[-COVERED + 1 :], (start, end)]
        self._latest = max(self._latest, end)
        return max(0.0, alone)
