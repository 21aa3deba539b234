"""Traces for tests, in the shape that the profiler writes: engines and the host as processes, times in microseconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PROCESSES = ("DMA", "MME", "TPC", "NIC", "host")


class SampleTrace:
    """Collects events and writes them as a trace file."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        for pid, name in enumerate(PROCESSES, start=1):
            self.events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}})
            thread = "main" if name == "host" else f"{name}0"
            self.events.append(
                {"ph": "M", "name": "thread_name", "pid": pid, "tid": pid * 1000, "args": {"name": thread}}
            )

    def kernel(self, engine: str, name: str, start: float, duration: float, **args: Any) -> None:
        """What an engine does: `start` and `duration` in us; keys of `args` with underscores for blanks."""
        self._complete(engine, name, "Memcpy" if engine == "DMA" else "Kernel", start, duration, args)

    def host(self, name: str, start: float, duration: float, **args: Any) -> None:
        """What the host does."""
        self._complete("host", name, "Runtime", start, duration, args)

    def _complete(
        self, process: str, name: str, category: str, start: float, duration: float, args: dict[str, Any]
    ) -> None:
        pid = PROCESSES.index(process) + 1
        event = {"ph": "X", "name": name, "cat": category, "pid": pid, "tid": pid * 1000, "ts": start, "dur": duration}
        self.events.append(event | {"args": {key.replace("_", " "): value for key, value in args.items()}})

    def write(self, path: Path) -> Path:
        """Write the file; returns `path`."""
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": self.events}))
        return path
