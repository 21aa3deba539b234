"""A compiled graph: a program placed on one card's engines."""

from __future__ import annotations

from dataclasses import dataclass

from ..spec import CardSpec
from .cost.roofline import hbm_bytes
from .program import Engine, EngineNode, Program


@dataclass(frozen=True)
class ScheduledNode:
    """An engine node with its place in the recipe's own time, in seconds from the recipe's start.

    `bound` is what limits it: compute, memory, vector, latency, host or network.
    """

    node: EngineNode
    start: float
    seconds: float
    bound: str

    @property
    def end(self) -> float:
        return self.start + self.seconds


@dataclass(frozen=True)
class Recipe:
    """Immutable result of a compilation: what runs when, and what memory it needs (bytes)."""

    name: str
    signature: str
    card: str
    program: Program
    nodes: tuple[ScheduledNode, ...]
    seconds: float
    compile_seconds: float
    workspace_bytes: int
    output_bytes: int
    sram_buffers: tuple[int, ...] = ()  # workspace that stays on the chip
    offsets: tuple[tuple[int, int], ...] = ()  # (buffer, offset in the workspace) of the rest

    @property
    def engine_seconds(self) -> dict[str, float]:
        """For how long each kind of engine is busy, by its name."""
        seconds: dict[str, float] = {}
        for scheduled in self.nodes:
            name = scheduled.node.engine.value
            seconds[name] = seconds.get(name, 0.0) + scheduled.seconds
        return seconds

    @property
    def collectives(self) -> tuple[float, ...]:
        """When each collective of the graph begins, in order, seconds from the start."""
        return tuple(scheduled.start for scheduled in self.nodes if scheduled.node.engine is Engine.NIC)

    def hbm_bytes(self, spec: CardSpec) -> float:
        """Bytes that it moves to and from HBM: the accesses of its nodes but for what stays on the chip."""
        on_chip = set(self.sram_buffers)
        return sum(
            hbm_bytes(access, spec)
            for scheduled in self.nodes
            for access in scheduled.node.reads + scheduled.node.writes
            if access.buffer not in on_chip
        )
