"""A trace as CSV: the raw file of begins and ends, and a table of the nodes.

Columns of the raw file are those of the real profiler's; the ones that only a card's own counters could fill (hardware
event port, SPMU, bus monitors, packets) stay empty.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .aside_file import AsideFile
from .events import DEVICE, Event, microseconds

RAW_COLUMNS = (
    "Name", "Trace Source", "Engine", "Event type", "Timestamp[usec]", "recipeHandle", "streamHandle", "Recipe ID",
    "Recipe name", "Context ID", "Device", "Operation", "Data Type", "HW Event port", "HW Event description",
    "SPMU value", "BMON min", "BMON avg", "BMON max", "BMON matches", "BMON configured cycles", "NIC Packets amount",
    "Misc",
)  # fmt: skip
NODE_COLUMNS = (
    "Node name", "Operation", "Engine", "Data Type", "Recipe ID", "Recipe name", "Invocations", "Total[usec]",
    "Average[usec]", "Bound", "Bytes", "Operations", "Source line",
)  # fmt: skip


def _line(values: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


def _engine_text(event: Event) -> str:
    """`[HD0] TPC 5`, as the real profiler names the engine of a device."""
    thread = event.place.thread
    name = thread.rstrip("0123456789")
    return f"[HD{DEVICE}] {name} {thread[len(name) :]}".rstrip()


class RawCsv:
    """One row for each begin and each end."""

    def __init__(self, path: Path) -> None:
        self.file = AsideFile(path)
        self.file.write(_line(RAW_COLUMNS))

    def write(self, event: Event, start: int, duration: int) -> None:
        if event.phase != "X":
            return
        args = event.args
        source = "Host" if event.category == "Runtime" else "HW"
        recipe = args.get("recipeId", "")
        engine = event.place.thread if source == "Host" else _engine_text(event)
        stream, name = args.get("streamHandle", ""), args.get("recipeName", "")
        handle = "" if recipe == "" else hex(recipe)
        node, kind, misc = args.get("user node name", event.name), args.get("dataType", ""), args.get("where", "")
        for what, moment in (("Begin", start), ("End", start + duration)):
            self.file.write(
                _line(
                    (node, source, engine, what, microseconds(moment), handle, stream, recipe, name, "", DEVICE)
                    + (event.name, kind, "", "", "", "", "", "", "", "", "", misc)
                )
            )

    def publish(self) -> None:
        self.file.publish()


class _Total:
    """Launches of one node, and their duration in nanoseconds."""

    def __init__(self, event: Event) -> None:
        self.event = event
        self.invocations = 0
        self.duration = 0


class AnalyzedNodes:
    """One row for each node of each recipe, with its time over all launches; the longest come first."""

    def __init__(self, path: Path) -> None:
        self.file = AsideFile(path)
        self.file.write(_line(NODE_COLUMNS))
        self._totals: dict[tuple[Any, ...], _Total] = {}

    def write(self, event: Event, start: int, duration: int) -> None:
        if event.phase == "X" and "kernel" in event.args:
            key = (event.args.get("recipeId", -1), event.args["user node name"], event.name)
            total = self._totals.setdefault(key, _Total(event))
            total.invocations += 1
            total.duration += duration

    def publish(self) -> None:
        rows = sorted(self._totals.items(), key=lambda item: (-item[1].duration, item[0]))
        self.file.publish("".join(_line(self._row(total)) for _, total in rows))

    @staticmethod
    def _row(total: _Total) -> tuple[object, ...]:
        args = total.event.args
        return (
            args["user node name"],
            total.event.name,
            args["engine"],
            args.get("dataType", ""),
            args.get("recipeId", ""),
            args.get("recipeName", ""),
            total.invocations,
            microseconds(total.duration),
            microseconds(total.duration // total.invocations),
            args.get("bound", ""),
            args.get("bytes", "") if "recipeId" in args else "",  # copies and collectives differ each time
            args.get("flops", ""),
            args.get("where", ""),
        )
