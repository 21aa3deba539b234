"""The files of a session: one trace in all formats that were asked for.

A file system that fails ends the trace, not the run: the user is told once, and no incomplete file is left behind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from .aside_file import AsideFile
from .csv_trace import AnalyzedNodes, RawCsv
from .events import Event
from .json_trace import JsonTrace


class Trace(Protocol):
    """A file that takes events."""

    file: AsideFile

    def write(self, event: Event, start: int, duration: int) -> None: ...

    def publish(self) -> None: ...


def _open(path: Path, header: Mapping[str, Any]) -> Iterator[Trace]:
    if path.suffix == ".csv":
        yield RawCsv(path)
        yield AnalyzedNodes(path.with_name(f"{path.stem}_analyzed_nodes.csv"))
    else:
        yield JsonTrace(path, header)


class Outputs:
    """`write` takes events; `publish` makes the files appear, complete so far."""

    def __init__(self, paths: list[Path], header: Mapping[str, Any], lost: Callable[[], None]) -> None:
        """`lost` is called once where the files cannot be written any further."""
        self._traces: list[Trace] = []
        self._lost = lost
        for path in paths:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                for trace in _open(path, header):
                    self._traces.append(trace)
            except OSError as error:
                self._fail(path, error)
                break

    @property
    def paths(self) -> list[Path]:
        """Files that are being written."""
        return [trace.file.path for trace in self._traces]

    def write(self, event: Event, start: int, duration: int) -> None:
        for trace in self._traces:
            try:
                trace.write(event, start, duration)
            except OSError as error:
                self._fail(trace.file.path, error)
                return

    def publish(self) -> None:
        """All files are complete under their names; writing may go on after `resume`."""
        for trace in self._traces:
            try:
                trace.publish()
            except OSError as error:
                self._fail(trace.file.path, error)
                return

    def resume(self) -> None:
        for trace in self._traces:
            try:
                trace.file.resume()
            except OSError as error:
                self._fail(trace.file.path, error)
                return

    def close(self) -> None:
        self.publish()
        for trace in self._traces:
            trace.file.close()
        self._traces = []

    def discard(self) -> None:
        """Leave nothing behind but what is complete."""
        for trace in self._traces:
            trace.file.discard()
        self._traces = []

    def _fail(self, path: Path, error: OSError) -> None:
        self.discard()
        print(
            f"profiler: cannot write {path}: {error.strerror or error}; the run goes on without a trace. Choose a "
            "folder that exists and has room, for instance with hl-prof-config -o",
            file=sys.stderr,
            flush=True,
        )
        self._lost()
