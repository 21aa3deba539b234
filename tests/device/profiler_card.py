"""A card that consists of a timeline and one recipe, for the profiler's tests."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema

from device.compiler.program import Access, Engine, EngineNode, Program
from device.compiler.recipe import Recipe, ScheduledNode
from device.description import configs_dir
from device.spec import CardSpec, load_card
from device.timeline import Timeline

GAUDI2 = load_card("gaudi2")
SCHEMA = jsonschema.Draft202012Validator(json.loads((configs_dir() / "profiler" / "trace.schema.json").read_text()))


def node(
    engine: Engine, name: str, start: float, seconds: float, kind: str = "elementwise", **more: Any
) -> ScheduledNode:
    fields = {"dtype": "BFloat16", "where": "train.py:7", "sources": (0,), "operations": 1000.0} | more
    work = EngineNode(
        engine=engine,
        name=name,
        kernel=f"{name.partition('_')[0]}_bf16",
        kind=kind,
        shape=(4, 4),
        reads=(Access(0, 512),),
        writes=(Access(1, 256),),
        **fields,
    )
    return ScheduledNode(work, start, seconds, "compute" if engine is Engine.MME else "memory")


def recipe(name: str, *nodes: ScheduledNode) -> Recipe:
    end = max(node.end for node in nodes)
    program = Program(tuple(node.node for node in nodes), (), len(nodes))
    return Recipe(name, name, "gaudi2", program, nodes, end, 0.001, 0, 0)


# A product, an activation that begins while it runs, a copy within the card behind both: 30 us.
STEP = recipe(
    "graph_0",
    node(Engine.MME, "gemm_0", 0.0, 20e-6, "gemm"),
    node(Engine.TPC, "relu_1", 10e-6, 15e-6, sources=(1, 2)),
    node(Engine.DMA, "copy_2", 25e-6, 5e-6, "copy"),
)


@dataclass
class FakeCard:
    """What a session needs of a card."""

    spec: CardSpec = GAUDI2
    module: int = 3
    timeline: Timeline = field(default_factory=lambda: Timeline(GAUDI2))
    recipes: dict[str, Recipe] = field(default_factory=lambda: {STEP.name: STEP})

    def __post_init__(self) -> None:
        for made in self.recipes.values():
            self.timeline.learn(made.name, made.seconds)

    def recipe(self, name: str) -> Recipe | None:
        return self.recipes.get(name)

    def step(self, times: int = 1) -> None:
        """Record, launch, and read the result."""
        for _ in range(times):
            self.timeline.record(10)
            self.timeline.hand_over()
            self.timeline.launch(STEP.name)
            self.timeline.copy("d2h", 4, pinned=True, wait=True, after=(1,))


def events(path: Path) -> list[dict[str, Any]]:
    """Events of a trace file that fits the schema."""
    trace = json.loads(path.read_text())
    SCHEMA.validate(trace)
    return trace["traceEvents"]


def named(found: list[dict[str, Any]], name: str, phase: str = "X") -> list[dict[str, Any]]:
    return [event for event in found if event["name"] == name and event["ph"] == phase]
