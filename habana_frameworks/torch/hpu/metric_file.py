"""The metrics file: PT_HPU_METRICS_FILE, _FILE_FORMAT (json, text) and _DUMP_TRIGGERS.

The file appears at its first record, and only where a card was acquired. A JSON file is an array whose closing bracket
comes at the end of the process, so what a killed process leaves is not valid JSON.
"""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

from device.backend import runtime
from device.card import current_card
from device.environment import FIRST_EAGER_SOFTWARE
from device.errors import ConfigurationError
from device.events import EventId, dispatcher

from .metric_kinds import Metric


class MetricDumpFormat(enum.Enum):
    """Forms of a metrics file."""

    json = 1
    text = 2


def dump_format(format: MetricDumpFormat | str) -> MetricDumpFormat:
    """The format itself, or the one of that name.

    Raises:
        ConfigurationError: there is none.
    """
    if isinstance(format, MetricDumpFormat):
        return format
    if format not in MetricDumpFormat.__members__:
        names = ", ".join(MetricDumpFormat.__members__)
        raise ConfigurationError(f"metrics cannot be written as {format!r}; the formats are {names}")
    return MetricDumpFormat[format]


class MetricDumpTrigger(enum.Enum):
    """What makes a record."""

    process_exit = 1
    mark_step = 2
    metric_change = 3
    user = 4


_WATCHED = (EventId.GRAPH_COMPILATION, EventId.CPU_FALLBACK, EventId.MEMORY_DEFRAGMENTATION,
            EventId.CACHE_HIT, EventId.CACHE_MISS)  # fmt: skip


def _variable(name: str) -> str:
    return os.environ.get(f"PT_HPU_METRICS_{name}") or os.environ.get(f"HABANA_PT_METRICS_{name}") or ""


def rank_path(file_name: str) -> Path:
    """The path with `-rank<N>` before its last extension where the process has a rank: a.txt-rank0.json."""
    path = Path(file_name)
    rank = os.environ.get("RANK") or os.environ.get("OMPI_COMM_WORLD_RANK")
    return path if rank is None else path.with_name(f"{path.stem}-rank{rank}{path.suffix}")


def _unused(path: Path) -> Path:
    candidate, number = path, 0
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}.{number}")
    return candidate


def _open(file_name: str) -> IO[str]:
    if not Path(file_name).parent.name and not os.path.dirname(file_name):
        raise ConfigurationError(
            f"metrics file {file_name!r} needs a folder in its path; write ./{file_name} for the current one"
        )
    path = rank_path(file_name)
    path.parent.mkdir(parents=True, exist_ok=True)
    return open(_unused(path), "w")


def _record(metric: Metric, trigger: str, format: MetricDumpFormat) -> str:
    stamp = datetime.now().isoformat()
    if format is MetricDumpFormat.json:
        record = {
            "metric_name": metric.name(),
            "triggered_by": trigger,
            "generated_on": stamp,
            "statistics": dict(metric.stats()),
        }
        return json.dumps(record, indent=4)
    head = f"Metric name: {metric.name()}\nTriggered by: {trigger}\nGenerated on: {stamp}\nStatistics:\n"
    return head + "".join(f"\t{tag}: {value}\n" for tag, value in metric.stats()) + "\n"


class _Writer:
    """Records into an open file, each flushed."""

    def __init__(self, file: IO[str], format: MetricDumpFormat) -> None:
        self._file, self._format = file, format
        self._empty = True
        if format is MetricDumpFormat.json:
            file.write("[")

    def write(self, metric: Metric, trigger: str) -> None:
        if self._format is MetricDumpFormat.json and not self._empty:
            self._file.write(",\n")
        self._empty = False
        self._file.write(_record(metric, trigger, self._format))
        self._file.flush()

    def close(self) -> None:
        if self._format is MetricDumpFormat.json:
            self._file.write("]\n")
        self._file.close()


def write_dump(file_name: str, format: MetricDumpFormat, metrics: Mapping[str, Metric], trigger: str) -> None:
    """One record of each metric into a new file."""
    writer = _Writer(_open(file_name), format)
    for metric in metrics.values():
        writer.write(metric, trigger)
    writer.close()


class MetricFile:
    """The file that the environment asks for."""

    def __init__(
        self,
        file_name: str,
        format: MetricDumpFormat,
        triggers: set[MetricDumpTrigger],
        metrics: Mapping[str, Metric],
    ) -> None:
        self._file_name, self._format, self._triggers, self._metrics = file_name, format, triggers, metrics
        self._writer: _Writer | None = None
        self._owner = os.getpid()
        self._handles = [dispatcher.subscribe(EventId.PROCESS_EXIT, self._on_exit)]
        if MetricDumpTrigger.mark_step in triggers:
            self._handles.append(dispatcher.subscribe(EventId.MARK_STEP, self._on_mark_step))
        if MetricDumpTrigger.metric_change in triggers:
            self._handles += [dispatcher.subscribe(kind, partial(self._on_change, kind)) for kind in _WATCHED]

    def _on_exit(self, stamp: float, parameters: dict[str, Any]) -> None:
        self.finish()

    def _on_mark_step(self, stamp: float, parameters: dict[str, Any]) -> None:
        for metric in self._metrics.values():
            self._dump(metric, "mark_step")

    def _on_change(self, kind: EventId, stamp: float, parameters: dict[str, Any]) -> None:
        for metric in self._metrics.values():
            if kind in metric.EVENTS:
                self._dump(metric, "metric_change")

    @classmethod
    def from_environment(cls, metrics: Mapping[str, Metric]) -> MetricFile | None:
        """The file of PT_HPU_METRICS_FILE, or None where it is unset.

        Raises:
            KeyError: a trigger that this release does not have.
            ConfigurationError: an unknown format.
        """
        file_name = _variable("FILE")
        if not file_name:
            return None
        form = _variable("FILE_FORMAT") or "json"
        if form not in MetricDumpFormat.__members__:
            raise ConfigurationError(f"PT_HPU_METRICS_FILE_FORMAT={form!r}; use json or text")
        software = tuple(int(part) for part in runtime.settings().software.split(".")[:2])
        known = dict(MetricDumpTrigger.__members__)
        if software >= FIRST_EAGER_SOFTWARE:
            known = {name: known[name] for name in ("process_exit", "user")}
        names = [name.strip() for name in (_variable("DUMP_TRIGGERS") or "process_exit").split(",")]
        return cls(file_name, MetricDumpFormat[form], {known[name] for name in names}, metrics)

    def _dump(self, metric: Metric, trigger: str) -> None:
        if current_card() is None or os.getpid() != self._owner:
            return
        if self._writer is None:
            self._writer = _Writer(_open(self._file_name), self._format)
        self._writer.write(metric, trigger)

    def detach(self) -> None:
        """Listen no more."""
        for handle in self._handles:
            dispatcher.unsubscribe(handle)

    def finish(self) -> None:
        """The last records and the end of the file."""
        if MetricDumpTrigger.process_exit in self._triggers:
            for metric in self._metrics.values():
                self._dump(metric, "process_exit")
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self.detach()
