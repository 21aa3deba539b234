"""What the card's memory held when, by category: the highest point and the end of each step.

Most categories are known in hindsight: an output of a graph turns out to be a gradient when an optimizer steps. A
correction therefore also changes the samples taken while the tensor was held. Long runs keep fewer than `MAX_STEPS`
intervals: there two neighbours become one, which keeps the higher of their highest points.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MAX_STEPS = 128


class Category(enum.IntEnum):
    """What a tensor is for. `OTHER`: copied in (inputs) and not known to be anything else; the pool's reserve."""

    WEIGHTS = 0  # and buffers of modules
    GRADIENTS = 1
    OPTIMIZER_STATE = 2
    ACTIVATIONS = 3  # results of graphs that are nothing else
    OTHER = 4
    WORKSPACE = 5

    @property
    def key(self) -> str:
        """The category's name in a report: `optimizer_state`."""
        return self.name.lower()

    def __str__(self) -> str:
        return self.key.replace("_", " ")


@dataclass
class Sample:
    """Bytes by category at a moment (modelled seconds). `number` orders samples and allocations."""

    number: int
    moment: float
    step: int
    totals: list[int]
    origin: str

    @property
    def in_use(self) -> int:
        return sum(self.totals)

    def row(self) -> dict[str, Any]:
        """As plain data."""
        named = {category.key: self.totals[category] for category in Category}
        return {"moment": self.moment, "step": self.step, **named, "in_use": self.in_use}


class Usage:
    """Samples of a run."""

    def __init__(self, totals: Sequence[int]) -> None:
        self.number = 1  # of the next sample
        self.peak = Sample(0, 0.0, 0, list(totals), "")
        self._high = Sample(0, 0.0, 0, list(totals), "")  # highest point of the current interval
        self._intervals: list[tuple[Sample, Sample]] = []  # highest point, end
        self._steps = 0
        self._stride = 1

    def rise(self, moment: float, step: int, totals: Sequence[int], origin: str) -> None:
        """More is in use than before in this interval; `origin` is the graph whose tensors came last."""
        sample = Sample(self.number, moment, step, list(totals), origin)
        self.number += 1
        if sample.in_use > self._high.in_use:
            self._high = sample
        if sample.in_use > self.peak.in_use:
            self.peak = Sample(sample.number, moment, step, list(totals), origin)

    def end_step(self, moment: float, step: int, totals: Sequence[int]) -> bool:
        """A step has ended. Whether a new interval begins: in long runs several steps are one."""
        self._steps += 1
        if self._steps % self._stride:
            return False
        end = Sample(self.number, moment, step, list(totals), "")
        self.number += 1
        self._intervals.append((self._high, end))
        self._high = Sample(end.number, moment, step, list(totals), "")
        if len(self._intervals) == MAX_STEPS:
            self._stride *= 2
            pairs = zip(self._intervals[::2], self._intervals[1::2], strict=True)
            self._intervals = [(max(a[0], b[0], key=lambda sample: sample.in_use), b[1]) for a, b in pairs]
        return True

    def correct(self, since: int, old: int, new: int, nbytes: int) -> None:
        """A tensor that is held since sample number `since` is `new`, and was counted as `old`."""
        for sample in (self.peak, self._high):
            _move(sample, since, old, new, nbytes)
        for high, end in reversed(self._intervals):
            if end.number < since:
                break
            _move(high, since, old, new, nbytes)
            _move(end, since, old, new, nbytes)

    def rows(self, now: Sample) -> list[dict[str, Any]]:
        """All samples in order of time, then how it stands now; points at which nothing changed are left out."""
        samples = [sample for interval in self._intervals for sample in interval]
        rows: list[dict[str, Any]] = []
        before: list[int] = []
        for sample in sorted([*samples, self._high, now], key=lambda sample: sample.number):
            if sample.totals != before or sample is now:
                rows.append(sample.row())
            before = sample.totals
        return rows


def _move(sample: Sample, since: int, old: int, new: int, nbytes: int) -> None:
    if sample.number >= since:
        sample.totals[old] -= nbytes
        sample.totals[new] += nbytes
