"""Events of a trace in Chrome's trace format, which Perfetto and HLTV read too.

Moments are whole nanoseconds here and microseconds in the file. An event that recurs, as a recipe's nodes do at each
launch, is built once and written with another moment each time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from ..compiler.recipe import ScheduledNode
from ..network import Transfer
from .layout import Layout, Place

DTYPES = {
    "Double": "f64", "Float": "f32", "Half": "f16", "BFloat16": "bf16", "Float8_e4m3fn": "f8_e4m3",
    "Float8_e5m2": "f8_e5m2", "Long": "i64", "Int": "i32", "Short": "i16", "Char": "i8", "Byte": "u8", "Bool": "bool",
    "UInt16": "u16", "UInt32": "u32", "UInt64": "u64",
}  # fmt: skip
DEVICE = 0  # a process has one card, and its index is 0
HPU_DEVICE_TYPE = 1  # "Device Type" of [memory] events: 0 is the host, 1 the accelerator


def nanoseconds(seconds: float) -> int:
    """A modelled moment in whole nanoseconds."""
    return round(seconds * 1e9)


def microseconds(moment: int) -> str:
    """Nanoseconds as microseconds with three decimals."""
    sign, moment = ("-", -moment) if moment < 0 else ("", moment)
    return f"{sign}{moment // 1000}.{moment % 1000:03d}"


class Event:
    """An event without its moment.

    `phase`: X (with a duration), B and E (begin and end), i (instant), C (counter), s and f (ends of an arrow), M
    (name or order of a process or thread; it has no moment). `extra`: fields beside args, such as id.
    """

    __slots__ = ("args", "category", "head", "name", "phase", "place", "tail")

    def __init__(
        self,
        phase: str,
        name: str,
        category: str,
        place: Place,
        args: Mapping[str, Any] = MappingProxyType({}),
        extra: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.phase = phase
        self.name = name
        self.category = category
        self.place = place
        self.args = args
        fields: dict[str, Any] = {"ph": phase, "name": name}
        if category:
            fields["cat"] = category
        fields |= {"pid": place.pid, "tid": place.tid, **extra}
        self.head = json.dumps(fields)[:-1]
        self.tail = f', "args": {json.dumps(args)}}}' if args else "}"

    def text(self, start: int, duration: int) -> str:
        """The event at `start` for `duration`, in nanoseconds, as JSON in one line."""
        return joined(self.head, self.tail, self.phase, start, duration)


def joined(head: str, tail: str, phase: str, start: int, duration: int) -> str:
    """The parts of an event's text put together; a duration belongs to X only, and M has no moment."""
    if phase == "M":
        return head + tail
    moment = f', "ts": {microseconds(start)}'
    return head + moment + (f', "dur": {microseconds(duration)}' if phase == "X" else "") + tail


class Sink(Protocol):
    """Takes events: a file of some format, or a store."""

    def write(self, event: Event, start: int, duration: int) -> None:
        """One event, moments in nanoseconds."""


def processes_named(layout: Layout) -> Iterable[Event]:
    """Names, labels and order of all processes."""
    for order, (engine, pid, name, label) in enumerate(layout.processes()):
        place = Place(engine, pid, name, label, 0, "")
        yield Event("M", "process_name", "", place, {"name": name})
        yield Event("M", "process_labels", "", place, {"labels": label})
        yield Event("M", "process_sort_index", "", place, {"sort_index": order})


def thread_named(place: Place) -> Iterable[Event]:
    """Name and order of a thread."""
    yield Event("M", "thread_name", "", place, {"name": place.thread})
    yield Event("M", "thread_sort_index", "", place, {"sort_index": place.tid})


def node_event(
    node: ScheduledNode, place: Place, recipe: str, recipe_id: int, stream: int, fused: bool = True
) -> Event:
    """A node of a recipe on its engine; `fused`: say how many operators it computes."""
    work = node.node
    category = {"copy": "Memcpy", "fill": "Memset"}.get(work.kind, "Kernel") if place.engine == "DMA" else "Kernel"
    args = {
        "user node name": work.name,
        "kernel": work.kernel,
        "kind": work.kind,
        "engine": place.engine,
        "dataType": DTYPES.get(work.dtype, work.dtype),
        "recipeName": recipe,
        "recipeId": recipe_id,
        "bound": node.bound,
        "bytes": work.nbytes,
        "flops": work.operations,
        "where": work.where,
        "streamHandle": hex(stream),
        "device": DEVICE,
    }
    if fused:
        args["fused operators"] = len(work.sources)
    return Event("X", work.kernel, category, place, args)


def unknown_recipe_event(place: Place, recipe: str, recipe_id: int, stream: int) -> Event:
    """A launch of which only the name is known."""
    args = {
        "user node name": recipe,
        "kernel": recipe,
        "engine": place.engine,
        "recipeName": recipe,
        "recipeId": recipe_id,
        "streamHandle": hex(stream),
        "device": DEVICE,
    }
    return Event("X", recipe, "Kernel", place, args)


def copy_event(place: Place, direction: str, nbytes: int) -> Event:
    """A copy over PCIe."""
    name = {"h2d": "MemcpyH2D", "d2h": "MemcpyD2H"}[direction]
    args = {
        "user node name": name,
        "kernel": name,
        "engine": "DMA",
        "direction": direction,
        "bytes": nbytes,
        "streamHandle": "0x0",
        "device": DEVICE,
    }
    return Event("X", name, "Memcpy", place, args)


def collective_event(place: Place, transfer: Transfer, exposed: float) -> Event:
    """A collective on the network ports."""
    args = {
        "user node name": transfer.operation,
        "kernel": transfer.operation,
        "engine": "NIC",
        "bound": "network",
        "bytes": transfer.nbytes,
        "process group": transfer.group,
        "ranks": ", ".join(str(rank) for rank in transfer.ranks),
        "waited for other ranks (us)": round(transfer.waited * 1e6, 3),
        "last rank": transfer.last,
        "not hidden by computing (us)": round(exposed * 1e6, 3),
        "streamHandle": "0x0",
        "device": DEVICE,
    }
    return Event("X", transfer.operation, "Kernel", place, args)


def runtime_event(place: Place, name: str) -> Event:
    """Something that the host does."""
    return Event("X", name, "Runtime", place)


def bridge_events(place: Place, name: str) -> tuple[Event, Event]:
    """Begin and end of one of the bridge's functions."""
    return Event("B", name, "Runtime", place), Event("E", name, "Runtime", place)


def arrow(source: Place, target: Place, number: int) -> tuple[Event, Event]:
    """The two ends of an arrow from an enqueue on the host to its start on the card."""
    identity = {"id": number}
    return (
        Event("s", "enqueue", "enqueue", source, extra=identity),
        Event("f", "enqueue", "enqueue", target, extra=identity | {"bp": "e"}),
    )


def memory_counter(place: Place, in_use: int, persistent: int, workspace: int) -> Event:
    """The card's memory in bytes, as curves."""
    return Event("C", "HBM", "", place, {"in use": in_use, "persistent": persistent, "workspace": workspace})


def memory_instant(place: Place, change: int, number: int, in_use: int, reserved: int) -> Event:
    """A change of the card's memory as TensorBoard's memory view reads it; the changes of one graph are one event."""
    args = {
        "Addr": 0,
        "Bytes": change,
        "Device Id": DEVICE,
        "Device Type": HPU_DEVICE_TYPE,
        "Profiler Event Index": number,
        "Total Allocated": in_use,
        "Total Reserved": reserved,
    }
    return Event("i", "[memory]", "cpu_instant_event", place, args, {"s": "t"})
