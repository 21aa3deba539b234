"""Where events stand in a trace: processes, threads and their numbers.

A device thread's number is group x 1000 + engine, groups by generation as the real profiler has them. A node of a
recipe has all instances of its engine to itself; it is drawn on the first one that is free (MME0, TPC0, ...), so that a
trace stays small: what is drawn on TPC0 kept all TPCs busy.

Two arrangements: in the files of a session each kind of engine is a process and the host is another one; in PyTorch's
traces the card is one process, and the host's calls stand in three more beside PyTorch's own.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ..compiler.program import Engine
from ..spec import CardSpec

ENGINES = ("DMA", "MME", "TPC", "NIC")
HOST = "host"

_FIRST_GENERATION = ("DMA", "MME", "TPC", "NIC")
_LATER_GENERATIONS = (
    "MME", "TPC", "PDMA", "EDMA", "KDMA", "PSOC", "SM", "PMMU", "ROTATOR", "ARC_FARM", "VIDEO_DECODER", "NIC",
)  # fmt: skip
_GROUP_SIZE = 1000

# What the host's two threads do, the bridge's functions and the driver's calls on each; the card's memory.
HOST_LINES = ("main", "launch", "bridge main", "bridge launch", "synapse main", "synapse launch", "memory")


class Place(NamedTuple):
    """A thread of the trace; `engine` is DMA, MME, TPC, NIC or host."""

    engine: str
    pid: int
    process: str
    label: str
    tid: int
    thread: str


class Lanes:
    """Groups and numbers of a card's engines."""

    def __init__(self, spec: CardSpec) -> None:
        first = spec.device_name == "GAUDI"
        groups = _FIRST_GENERATION if first else _LATER_GENERATIONS
        self._numbers = {name: number for number, name in enumerate(groups, start=1)}
        self._inner_dma = "DMA" if first else "EDMA"
        self._link_dma = "DMA" if first else "PDMA"

    def node(self, engine: Engine, lane: int) -> tuple[int, str]:
        """Thread number and name of a recipe's node."""
        return self._thread(self._inner_dma if engine is Engine.DMA else engine.value, lane)

    def link(self, direction: str) -> tuple[int, str]:
        """Thread number and name of copies over PCIe: one engine in each direction."""
        tid, name = self._thread(self._link_dma, 0 if direction == "h2d" else 1)
        # The first generation has one group; its copies within the card take the numbers behind these two.
        return (tid + _GROUP_SIZE // 2, f"{name} PCIe") if self._link_dma == self._inner_dma else (tid, name)

    def _thread(self, group: str, lane: int) -> tuple[int, str]:
        return self._numbers[group] * _GROUP_SIZE + lane, f"{group}{lane}"


class Layout:
    """Base of the two arrangements."""

    def __init__(self, spec: CardSpec) -> None:
        self._lanes = Lanes(spec)

    def processes(self) -> list[tuple[str, int, str, str]]:
        """(engine or host line, pid, name, label) of all processes, in the order in which they are shown."""
        raise NotImplementedError

    def _process(self, engine: str) -> tuple[int, str, str]:
        raise NotImplementedError

    def node(self, engine: Engine, lane: int = 0) -> Place:
        """Where a recipe's node stands, or a collective."""
        return self._place(engine.value, self._lanes.node(engine, lane))

    def link(self, direction: str) -> Place:
        """Where a copy over PCIe stands, "h2d" or "d2h"."""
        return self._place("DMA", self._lanes.link(direction))

    def host(self, line: str) -> Place:
        """Where the host's events of one of HOST_LINES stand."""
        pid, process, label = self._process(line)
        return Place(HOST, pid, process, label, HOST_LINES.index(line) + 1, line)

    def _place(self, engine: str, thread: tuple[int, str]) -> Place:
        pid, process, label = self._process(engine)
        return Place(engine, pid, process, label, *thread)


class SessionLayout(Layout):
    """DMA, MME, TPC, NIC and host are processes 1 to 5."""

    def processes(self) -> list[tuple[str, int, str, str]]:
        return [(name, number, name, self._label(name)) for number, name in enumerate((*ENGINES, HOST), start=1)]

    def _process(self, engine: str) -> tuple[int, str, str]:
        name = HOST if engine in HOST_LINES else engine
        return (*ENGINES, HOST).index(name) + 1, name, self._label(name)

    @staticmethod
    def _label(name: str) -> str:
        return "CPU" if name == HOST else "HPU 0"


class TorchLayout(Layout):
    """The card is process 0; the host's are numbered from this process's, as the real bridge does."""

    _DEVICE = (0, "/device:HPU:0", "HPU 0")
    _SYNAPSE = (10000, "Synapse Logger")
    _BRIDGE = (20000, "Bridge Logs")
    _MEMORY = (30000, "Memory Logs")

    def processes(self) -> list[tuple[str, int, str, str]]:
        return [(engine, *self._process(engine)) for engine in ("MME", "synapse main", "main", "memory")]

    def _process(self, engine: str) -> tuple[int, str, str]:
        if engine not in HOST_LINES:
            return self._DEVICE
        synapse = engine.startswith("synapse")
        offset, name = self._SYNAPSE if synapse else self._MEMORY if engine == "memory" else self._BRIDGE
        return os.getpid() + offset, name, "CPU"
