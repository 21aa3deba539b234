"""What a trace holds, by thread: when each was busy, with what, and chains of elementwise kernels.

Both arrangements of a trace are understood: engines as processes (DMA, MME, TPC, NIC and host), and PyTorch's, where
one process holds the engines as threads. Keys of an event's arguments are found in any case, with blanks or
underscores.
"""

from __future__ import annotations

import functools
import math
import re
from array import array
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .intervals import Intervals, union

ENGINES = ("MME", "TPC", "DMA", "NIC")
HOST = "host"

DEVICE_CATEGORIES = ("kernel", "memcpy", "memset")
_DMA_THREADS = ("DMA", "EDMA", "PDMA", "KDMA")

SMALL_US = 100.0
"""Longest elementwise kernel, in us, that counts in a chain: a longer one is worth its launch."""
GAP_US = 1.0
"""Longest pause within a chain: in a longer one another engine may have come between."""

_TO_CARD = re.compile(r"h(ost)? ?(2|to) ?d(evice)?", re.IGNORECASE)

_ELEMENTWISE = re.compile(
    r"^(add|sub|mul|div|neg|abs|relu|gelu|silu|sigmoid|tanh|exp|log|sqrt|rsqrt|pow|square|reciprocal|clamp|where|"
    r"maximum|minimum|max|min|cast|not|and|or|equal|less|greater|threshold|dropout|constant)(_|$)"
)
"""Kernel names of elementwise operators, where an event does not tell its kind."""


@functools.lru_cache(maxsize=4096)
def _plain(key: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key.lower())


def arguments(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event's arguments, keys in small letters without blanks and underscores."""
    given = event.get("args")
    return {_plain(key): value for key, value in given.items()} if isinstance(given, dict) else {}


@dataclass
class Node:
    """What a node did over the whole trace; times in us."""

    engine: str
    kernel: str
    name: str
    bound: str
    where: str
    dtype: str
    count: int = 0
    total: float = 0.0


@dataclass
class Chain:
    """Consecutive elementwise kernels that could be one, wherever the same ones follow each other; times in us."""

    kernels: tuple[str, ...]
    where: str
    count: int = 0
    total: float = 0.0
    saving: float = 0.0


@dataclass
class Track:
    """One thread of a trace, or one engine of it."""

    pid: Any
    tid: Any
    hint: str
    begins: array[float] = field(default_factory=lambda: array("d"))
    ends: array[float] = field(default_factory=lambda: array("d"))
    by_name: dict[str, tuple[array[float], array[float]]] = field(default_factory=dict)
    nodes: dict[tuple[str, str], Node] = field(default_factory=dict)
    chains: dict[tuple[str, ...], Chain] = field(default_factory=dict)
    to_card: tuple[array[float], array[float]] = field(default_factory=lambda: (array("d"), array("d")))
    open: list[tuple[str, float]] = field(default_factory=list)
    chain: list[tuple[str, float, float, str, str]] = field(default_factory=list)

    def busy(self) -> Intervals:
        """When it was busy."""
        return _rows(self.begins, self.ends)

    def copying_in(self) -> Intervals:
        """When it copied from the host to the card."""
        return _rows(*self.to_card)


def _rows(begins: array[float], ends: array[float]) -> Intervals:
    return union([np.column_stack([np.frombuffer(begins), np.frombuffer(ends)])])


class Tracks:
    """Takes the events of a trace."""

    def __init__(self) -> None:
        self._tracks: dict[tuple[Any, Any, str], Track] = {}
        self._processes: dict[Any, str] = {}
        self._threads: dict[tuple[Any, Any], str] = {}
        self.taken = 0

    def take(self, event: dict[str, Any]) -> None:
        """Take one event; those that are neither durations nor names, or that no thread could do, are passed over."""
        if not isinstance(event.get("pid"), Hashable) or not isinstance(event.get("tid"), Hashable):
            return
        phase = event.get("ph")
        if phase == "X":
            begin, duration = _number(event.get("ts")), _number(event.get("dur"))
            if begin is not None:
                self._span(event, begin, begin + max(duration or 0.0, 0.0))
        elif phase in ("B", "E"):
            self._half(event, phase)
        elif phase == "M":
            name = arguments(event).get("name")
            if event.get("name") == "process_name":
                self._processes[event.get("pid")] = str(name)
            elif event.get("name") == "thread_name":
                self._threads[event.get("pid"), event.get("tid")] = str(name)

    def _half(self, event: dict[str, Any], phase: str) -> None:
        moment = _number(event.get("ts"))
        if moment is None:
            return
        track = self._track(event, "")
        if phase == "B":
            track.open.append((str(event.get("name", "")), moment))
        elif track.open:
            name, begin = track.open.pop()
            self._span(event | {"name": name}, begin, max(begin, moment))

    def _track(self, event: Mapping[str, Any], hint: str) -> Track:
        key = (event.get("pid"), event.get("tid"), hint)
        track = self._tracks.get(key)
        if track is None:
            track = self._tracks[key] = Track(*key)
        return track

    def _span(self, event: dict[str, Any], begin: float, end: float) -> None:
        self.taken += 1
        category = str(event.get("cat", "")).lower()
        if category not in DEVICE_CATEGORIES:
            begins, ends = self._track(event, "").by_name.setdefault(str(event.get("name")), (array("d"), array("d")))
            begins.append(begin)
            ends.append(end)
            return
        args = arguments(event)
        track = self._track(event, str(args.get("engine", "")).upper() or "?")
        track.begins.append(begin)
        track.ends.append(end)
        kernel = str(args.get("kernel") or event.get("name"))
        name = str(args.get("usernodename") or args.get("direction") or "")
        if category == "memcpy" and (_TO_CARD.search(kernel) or _TO_CARD.search(name)):
            track.to_card[0].append(begin)
            track.to_card[1].append(end)
        node = track.nodes.get((kernel, name))
        if node is None:
            bound, where, dtype = (str(args.get(key, "")) for key in ("bound", "where", "datatype"))
            node = track.nodes[kernel, name] = Node("", kernel, name, bound, where, dtype)
        node.count += 1
        node.total += end - begin
        self._extend_chain(track, args, kernel, begin, end)

    def _extend_chain(self, track: Track, args: dict[str, Any], kernel: str, begin: float, end: float) -> None:
        kind = args.get("kind")
        elementwise = kind == "elementwise" if kind is not None else bool(_ELEMENTWISE.match(kernel.lower()))
        recipe = str(args.get("recipename", ""))
        small = elementwise and end - begin <= SMALL_US
        last = track.chain[-1] if track.chain else None
        if last is not None and (not small or recipe != last[3] or not -GAP_US <= begin - last[2] <= GAP_US):
            close_chain(track)
        if small:
            track.chain.append((kernel, begin, end, recipe, str(args.get("where", ""))))

    def engines(self) -> dict[str, list[Track]]:
        """The tracks of each engine. To be asked at the end: names may come after the events."""
        found: dict[str, list[Track]] = {engine: [] for engine in ENGINES}
        for track in self._tracks.values():
            if track.begins and (engine := self._engine(track)):
                close_chain(track)
                found[engine].append(track)
                for node in track.nodes.values():
                    node.engine = engine
        return found

    def _engine(self, track: Track) -> str | None:
        thread = self._threads.get((track.pid, track.tid), "")
        words = re.match(r"[A-Za-z_]*", thread)
        for name in (track.hint, self._processes.get(track.pid, ""), words[0] if words else ""):
            upper = name.upper()
            if upper in _DMA_THREADS:
                return "DMA"
            if upper in ENGINES:
                return upper
        return None

    def host(self) -> dict[str, Intervals]:
        """What the host did when, by name; overlapping events of a name are one."""
        parts: dict[str, list[Intervals]] = {}
        for track in self._tracks.values():
            for name, (begins, ends) in track.by_name.items():
                parts.setdefault(name, []).append(_rows(begins, ends))
        return {name: union(rows) for name, rows in parts.items()}


def close_chain(track: Track) -> None:
    """Count the chain that has ended, if it is one."""
    members, track.chain = track.chain, []
    if len(members) < 2:
        return
    kernels = tuple(member[0] for member in members)
    times = [end - begin for _, begin, end, _, _ in members]
    chain = track.chains.setdefault(kernels, Chain(kernels, members[0][4]))
    chain.count += 1
    chain.total += sum(times)
    chain.saving += sum(times) - max(times)


def nodes_of(tracks: Iterable[Track]) -> list[Node]:
    """Nodes of several tracks, the same ones together."""
    together: dict[tuple[str, str, str], Node] = {}
    for track in tracks:
        for (kernel, name), node in track.nodes.items():
            into = together.setdefault(
                (node.engine, kernel, name), Node(node.engine, kernel, name, node.bound, node.where, node.dtype)
            )
            into.count += node.count
            into.total += node.total
    return list(together.values())


def _number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)  # some writers quote numbers that a double cannot hold
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
