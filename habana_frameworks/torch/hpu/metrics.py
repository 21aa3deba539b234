"""Metrics of the card as a script reads them: compilations, CPU fallbacks, memory defragmentation, the recipe cache.

A metric counts events from the moment it is made. An event of step k becomes visible when the launch thread is joined:
at the next flush that has work, at a read of a value, at `synchronize`, at process exit.
"""

from __future__ import annotations

from types import TracebackType

from device.backend import runtime

from .metric_file import MetricDumpFormat, MetricFile, dump_format, write_dump
from .metric_kinds import KINDS, Metric

__all__ = [
    "Metric",
    "MetricDumpFormat",
    "MetricNotFound",
    "metric_debug_atexit",
    "metric_debug_enable_saver",
    "metric_debug_reload",
    "metric_global",
    "metric_localcontext",
    "metrics_dump",
]


class MetricNotFound(Exception):
    """There is no metric of that name."""


def _names() -> list[str]:
    names = ["graph_compilation", "cpu_fallback", "memory_defragmentation"]
    return [*names, "recipe_cache"] if runtime.settings().cache_metrics else names


def _make(name: str) -> Metric:
    if name not in _names():
        hint = " (set PT_HPU_ENABLE_CACHE_METRICS=1 before the import)" if name in KINDS else ""
        raise MetricNotFound(f"no metric {name!r}; there are {', '.join(_names())}{hint}")
    return KINDS[name]()


_global: dict[str, Metric] = {}
_file: MetricFile | None = None


def _start() -> None:
    global _file
    _global.update({name: _make(name) for name in _names()})
    _file = MetricFile.from_environment(_global)


def metric_global(name: str) -> Metric | None:
    """The metric of the whole process, or None where there is none of that name."""
    return _global.get(name)


class metric_localcontext:
    """A metric of its own for a block: counts from its start, stops at its end, can be read afterwards.

    Raises:
        MetricNotFound: on entering, for an unknown name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._metric: Metric | None = None

    def __enter__(self) -> Metric:
        self._metric = _make(self._name)
        return self._metric

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._metric is not None:
            self._metric.stop()


def metrics_dump(file_name: str, format: MetricDumpFormat | str = MetricDumpFormat.json) -> None:
    """Write all metrics of the process to a file now (trigger `user`). A format may be given by its name.

    Raises:
        ConfigurationError: a format that does not exist, or a file without a folder in its path.
    """
    write_dump(file_name, dump_format(format), _global, "user")


def metric_debug_reload() -> None:
    """Read the environment anew and start all metrics over."""
    global _file
    for metric in _global.values():
        metric.stop()
    if _file is not None:
        _file.detach()
    _global.clear()
    _start()


def metric_debug_atexit() -> None:
    """Write what the end of the process would write."""
    if _file is not None:
        _file.finish()


def metric_debug_enable_saver() -> None:
    """Make the metrics file of the environment where there is none yet."""
    global _file
    if _file is None:
        _file = MetricFile.from_environment(_global)


_start()
