"""What happens on the card as lines of the log files, and statistics of it.

Lines are written for the loggers that are enabled (`loggers.py`). Statistics: PT_HPU_PRINT_STATS=1 writes them at the
end of the process, PT_HPU_PRINT_STATS_DUMP_FREQ=N after every N graphs, too, PT_HPU_PRINT_STATS_TABLE=1 as a table;
they go to the logger PT_RECIPE_STATS, which that enables.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from . import flags
from .events import EventId, dispatcher
from .loggers import Level, Loggers, loggers

STATISTICS = "PT_RECIPE_STATS"
_LINES: dict[EventId, tuple[str, Level, str]] = {
    EventId.DEVICE_ACQUIRED: ("PT_DEVICE", Level.info, "device acquired"),
    EventId.GRAPH_COMPILATION: ("PT_BRIDGE", Level.info, "compiled {recipe} in {duration} us"),
    EventId.CACHE_MISS: ("PT_BRIDGE", Level.debug, "recipe cache miss {recipe_id}"),
    EventId.CACHE_HIT: ("PT_BRIDGE", Level.trace, "recipe cache hit {recipe_id}"),
    EventId.CPU_FALLBACK: ("PT_FALLBACK", Level.info, "{op_name} runs on the host"),
    EventId.MARK_STEP: ("PT_LAZY", Level.debug, "step marker due to host step marker"),
    EventId.MEMORY_DEFRAGMENTATION: ("PT_DEVMEM", Level.info, "defragmentation: success {success}, {milliseconds} ms"),
}


class EventLog:
    """Writes lines for the events whose logger is enabled."""

    def __init__(self, target: Loggers) -> None:
        self._loggers = target
        self._followed: set[EventId] = set()
        target.changed = self.follow

    def follow(self) -> None:
        """Listen to what is to be written by now; nothing listens as long as no logger wants it."""
        for kind, (name, level, _) in _LINES.items():
            if kind not in self._followed and self._loggers.enabled(name, level):
                self._followed.add(kind)
                dispatcher.subscribe(kind, partial(self._write, kind))

    def _write(self, kind: EventId, stamp: float, parameters: dict[str, Any]) -> None:
        name, level, text = _LINES[kind]
        self._loggers.log(name, level, text.format(**parameters))


class Statistics:
    """Counts of events, and the time of compilations."""

    def __init__(self, target: Loggers) -> None:
        self._loggers = target
        self._counts: Counter[EventId] = Counter()
        self._microseconds = 0
        self._every = int(flags.get("PT_HPU_PRINT_STATS_DUMP_FREQ"))
        self._as_table = bool(flags.get("PT_HPU_PRINT_STATS_TABLE"))
        if not (self._every or self._as_table or flags.get("PT_HPU_PRINT_STATS")):
            return
        if not target.enabled(STATISTICS, Level.debug):
            target.enable(f"LOG_LEVEL_{STATISTICS}", Level.debug)
        for kind in _LINES:
            dispatcher.subscribe(kind, partial(self._count, kind))
        dispatcher.subscribe(EventId.PROCESS_EXIT, lambda stamp, parameters: self.write())

    def _count(self, kind: EventId, stamp: float, parameters: dict[str, Any]) -> None:
        self._counts[kind] += 1
        if kind is EventId.GRAPH_COMPILATION:
            self._microseconds += int(parameters["duration"])
        graphs = self._counts[EventId.CACHE_HIT] + self._counts[EventId.CACHE_MISS]
        if kind in (EventId.CACHE_HIT, EventId.CACHE_MISS) and self._every and graphs % self._every == 0:
            self.write()

    def write(self) -> None:
        """Write the figures so far."""
        rows = [(kind.name.lower(), str(self._counts[kind])) for kind in _LINES]
        rows.append(("graph_compilation_us", str(self._microseconds)))
        if self._as_table:
            lines = [f"| {name:<24} | {value:>12} |" for name, value in rows]
            text = "\n".join(["statistics", *lines])
        else:
            text = "statistics: " + ", ".join(f"{name} {value}" for name, value in rows)
        self._loggers.log(STATISTICS, Level.debug, text)


def start() -> None:
    """Follow events for the log files of this process."""
    EventLog(loggers).follow()
    Statistics(loggers)
