"""A trace as JSON, for Perfetto, Chrome and HLTV, written event by event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..spec import CardSpec
from .aside_file import AsideFile
from .events import DEVICE, Event

TIME_BASE = "microseconds of modelled time since the process first used the card"


def device_properties(spec: CardSpec) -> list[dict[str, Any]]:
    """The trace's description of the card; memory in bytes."""
    return [{"id": DEVICE, "name": spec.device_name, "totalGlobalMem": spec.hbm.capacity_bytes}]


def session_header(spec: CardSpec, module: int, rank: int, session: str) -> dict[str, Any]:
    """What stands in front of the events in a session's file."""
    return {
        "schemaVersion": 1,
        "deviceProperties": device_properties(spec),
        "displayTimeUnit": "ms",
        "hpu_time": "modelled",
        "hpu_time_base": TIME_BASE,
        "card": spec.name,
        "module": module,
        "rank": rank,
        "session": session,
    }


class JsonTrace:
    """A session's trace file."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self.file = AsideFile(path)
        self._separator = "\n"
        self.file.write(f'{json.dumps(header)[:-1]}, "traceEvents": [')

    def write(self, event: Event, start: int, duration: int) -> None:
        self.file.write(self._separator + event.text(start, duration))
        self._separator = ",\n"

    def publish(self) -> None:
        self.file.publish("\n]}\n")
