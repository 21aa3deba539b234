"""The kinds of metric: what each counts, under which tags and in which units."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from device.environment import flag
from device.events import EventId, dispatcher

Stats = list[tuple[str, Any]]


class Metric:
    """Counts the events of its kinds between `start` and `stop`; counting starts when it is made."""

    NAME = ""
    EVENTS: tuple[EventId, ...] = ()

    def __init__(self) -> None:
        self._handles: list[int] = []
        self.reset()
        self.start()

    def name(self) -> str:
        """The metric's name."""
        return self.NAME

    def start(self) -> None:
        """Count from here on; no effect where it counts already."""
        if not self._handles:
            self._handles = [dispatcher.subscribe(kind, partial(self._deliver, kind)) for kind in self.EVENTS]

    def _deliver(self, kind: EventId, stamp: float, parameters: dict[str, Any]) -> None:
        self._count(kind, parameters)

    def stop(self) -> None:
        """Count no more; what was counted stays readable."""
        for handle in self._handles:
            dispatcher.unsubscribe(handle)
        self._handles = []

    def process(self) -> None:
        """Take in waiting events. They arrive at once here, so there are none."""

    def reset(self) -> None:
        """Counters start at zero."""
        raise NotImplementedError

    def stats(self) -> Stats:
        """(tag, value) pairs in fixed order."""
        raise NotImplementedError

    def _count(self, kind: EventId, parameters: dict[str, Any]) -> None:
        raise NotImplementedError


class GraphCompilation(Metric):
    """Compiled graphs; times in microseconds. Also each recipe's name and duration, if PT_HPU_METRICS_GC_DETAILS asks
    for them when the statistics are read.
    """

    NAME = "graph_compilation"
    EVENTS = (EventId.GRAPH_COMPILATION,)

    def __init__(self) -> None:
        self._recipes: list[tuple[str, int]] = []
        super().__init__()

    def reset(self) -> None:
        self._number = 0
        self._total = 0

    def stats(self) -> Stats:
        average: float = self._total / self._number if self._number else 0
        rows: Stats = [("TotalNumber", self._number), ("TotalTime", self._total), ("AvgTime", average)]
        return [*rows, ("recipe", list(self._recipes))] if flag("PT_HPU_METRICS_GC_DETAILS", False) else rows

    def _count(self, kind: EventId, parameters: dict[str, Any]) -> None:
        duration = int(parameters["duration"])
        self._number += 1
        self._total += duration
        self._recipes.append((parameters["recipe"], duration))


class CpuFallback(Metric):
    """Operators that ran on the host, by name."""

    NAME = "cpu_fallback"
    EVENTS = (EventId.CPU_FALLBACK,)

    def reset(self) -> None:
        self._ops: Counter[str] = Counter()

    def stats(self) -> Stats:
        return [("TotalNumber", self._ops.total()), ("FallbackOps", dict(self._ops))]

    def _count(self, kind: EventId, parameters: dict[str, Any]) -> None:
        self._ops[parameters["op_name"]] += 1


class MemoryDefragmentation(Metric):
    """Defragmentations of the card's memory; average and longest of the successful ones, in milliseconds."""

    NAME = "memory_defragmentation"
    EVENTS = (EventId.MEMORY_DEFRAGMENTATION,)

    def reset(self) -> None:
        self._number = 0
        self._times: list[float] = []

    def stats(self) -> Stats:
        times = self._times
        return [
            ("TotalNumber", self._number),
            ("TotalSuccessful", len(times)),
            ("AvgTime", sum(times) / len(times) if times else 0),
            ("MaxTime", max(times, default=0)),
        ]

    def _count(self, kind: EventId, parameters: dict[str, Any]) -> None:
        self._number += 1
        if parameters["success"]:
            self._times.append(float(parameters["milliseconds"]))


class RecipeCacheMetric(Metric):
    """Hits and misses of the recipe cache, in all and by recipe."""

    NAME = "recipe_cache"
    EVENTS = (EventId.CACHE_HIT, EventId.CACHE_MISS)

    def reset(self) -> None:
        self._hits: Counter[str] = Counter()
        self._misses: Counter[str] = Counter()

    def stats(self) -> Stats:
        return [
            ("TotalHit", self._hits.total()),
            ("RecipeHit", dict(self._hits)),
            ("TotalMiss", self._misses.total()),
            ("RecipeMiss", dict(self._misses)),
        ]

    def _count(self, kind: EventId, parameters: dict[str, Any]) -> None:
        counter = self._hits if kind is EventId.CACHE_HIT else self._misses
        counter[parameters["recipe_id"]] += 1


KINDS: dict[str, type[Metric]] = {
    kind.NAME: kind for kind in (GraphCompilation, CpuFallback, MemoryDefragmentation, RecipeCacheMetric)
}
