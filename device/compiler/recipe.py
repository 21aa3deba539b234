"""A compiled graph."""

from __future__ import annotations

from dataclasses import dataclass

from ..graph.ir import Graph
from .lowering import EngineNode


@dataclass(frozen=True)
class ScheduledNode:
    """An engine node with its place in the recipe's own time, in seconds from the recipe's start."""

    node: EngineNode
    start: float
    seconds: float
    bound: str


@dataclass(frozen=True)
class Recipe:
    """Immutable result of a compilation: what runs when, and what memory it needs (bytes)."""

    name: str
    graph: Graph
    nodes: tuple[ScheduledNode, ...]
    seconds: float
    compile_seconds: float
    workspace_bytes: int
    output_bytes: int
