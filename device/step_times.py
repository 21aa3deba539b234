"""How long steps take: from each end of a step to the next, in modelled seconds, bounded however long the run."""

from __future__ import annotations

import statistics
from collections import deque

WARMUP_STEPS = 2  # the first steps compile
RECENT = 10_000  # steps that the typical one is taken from: the last so many


class StepTimes:
    """Durations of steps, the first of which begins with the run."""

    def __init__(self) -> None:
        self.count = 0
        self._last = 0.0
        self._warmup: list[float] = []
        self._recent: deque[float] = deque(maxlen=RECENT)

    def end(self, moment: float) -> None:
        """A step has ended."""
        self.count += 1
        kept = self._warmup if self.count <= WARMUP_STEPS else self._recent
        kept.append(moment - self._last)
        self._last = moment

    def typical(self) -> float:
        """The median step of the last `RECENT`, the first two left out where there are more; the lower of two medians.

        The median, so that an evaluation or a compilation between two steps does not count as training; of two, the
        one that happened, for a mean of a step that compiled and one that did not is neither.
        """
        kept = self._recent or self._warmup
        return statistics.median_low(kept) if kept else 0.0
