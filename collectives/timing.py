"""When transfers end in modelled time: lines, in which one comes after another, and the ports that lines share.

A line is a process group's collectives, or the messages from one rank to another. Its next transfer starts when all its
ranks are ready and the one before is over, and takes what the fabric's model says. Lines of one card whose transfers
use the same ports at the same time share them: a transfer takes longer by what the card has issued before it on other
lines and is expected to send meanwhile, but for each of these lines not by more than its own time, as fair shares give
to all the same rate. What was issued first keeps its time, since its end is told to its ranks before the later one
exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from device.network import Transfer

from .arrival import Arrival
from .roce.network import Group
from .roce.place import Place

Use = tuple[str, Any]
"""A direction, "out" or "in", and a link."""


class _Issued(NamedTuple):
    """A transfer that is not accounted yet, as this card expects it."""

    uses: frozenset[Use]
    begin: float
    end: float


class Line:
    """Transfers between `ranks`, one after another; `own` is this card's place, `directions` those that it uses."""

    def __init__(
        self, model: Group, label: str, ranks: Sequence[int], own: Place, directions: Sequence[str] = ("out", "in")
    ) -> None:
        self.label = label
        self.ranks = tuple(ranks)
        self.free_at = 0.0
        self.expected = 0.0  # the end of what was issued
        self._model = model
        self._own = own
        self._directions = tuple(directions)
        self._uses: dict[str, frozenset[Use]] = {}

    def seconds(self, pattern: str, nbytes: int) -> float:
        return self._model.seconds(pattern, nbytes)

    def uses(self, pattern: str) -> frozenset[Use]:
        """This card's links that such a transfer occupies."""
        uses = self._uses.get(pattern)
        if uses is None:
            own = [link for link in self._model.links(pattern) if link[0] == self._own]
            uses = self._uses[pattern] = frozenset((way, link) for link in own for way in self._directions)
        return uses

    def finish(
        self, operation: str, pattern: str, nbytes: int, arrivals: Sequence[Arrival], own: int
    ) -> Transfer | None:
        """The next transfer, of which `arrivals` are the ranks' own, in their order; `own` is this rank's place there.
        None where no card takes part.
        """
        moments, backlogs = zip(*arrivals, strict=True)
        met = max(moments)
        if met < 0:
            return None
        begin, start = moments[own], max(met, self.free_at)
        alone, backlog = self._model.seconds(pattern, nbytes), max(backlogs)
        self.free_at = end = start + alone + backlog
        last = self.ranks[moments.index(met)] if met > begin else None
        share = alone / (alone + backlog) if backlog else 1.0  # of the time, in which the ports carry this one
        rate = self._model.hbm_bytes_per_s(pattern, nbytes) * share
        return Transfer(operation, nbytes, self.label, self.ranks, begin, met, start, end, last, rate)


class SharedPorts:
    """What one card has issued and not accounted yet, on all its lines."""

    def __init__(self) -> None:
        self._issued: dict[tuple[Line, int], _Issued] = {}

    def issue(self, line: Line, number: int, pattern: str, nbytes: int, moment: float) -> Arrival:
        """The line's transfer of that number, for which this card is ready at `moment`."""
        uses, seconds = line.uses(pattern), line.seconds(pattern, nbytes)
        begin = max(moment, line.expected)
        backlog = self._backlog(line, uses, begin, seconds)
        line.expected = begin + seconds + backlog
        self._issued[line, number] = _Issued(uses, begin, line.expected)
        return Arrival(moment, backlog)

    def _backlog(self, line: Line, uses: frozenset[Use], begin: float, seconds: float) -> float:
        """How much longer `seconds` from `begin` on become by what others send until then."""
        others = [
            (other.begin, other.end, owner)
            for (owner, _), other in self._issued.items()
            if owner is not line and other.end > begin and not uses.isdisjoint(other.uses)
        ]
        left: dict[Line, float] = {}  # by line: by how much it may still hold this one up
        backlog = 0.0
        for start, end, owner in sorted(others, key=lambda other: other[:2]):
            both = max(begin, start)
            still = begin + seconds + backlog - both  # what is left of this one then
            if still <= 0:
                break
            taken = min(end - both, still, left.get(owner, seconds))
            left[owner] = left.get(owner, seconds) - taken
            backlog += taken
        return backlog

    def settle(self, line: Line, number: int) -> bool:
        """That transfer is accounted, or has failed. Whether it had been issued."""
        return self._issued.pop((line, number), None) is not None

    def drop(self, line: Line) -> None:
        """The line's end: nothing more will be accounted there."""
        for key in [key for key in self._issued if key[0] is line]:
            del self._issued[key]
