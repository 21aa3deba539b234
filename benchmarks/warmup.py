"""Warm-up of MLPerf training runs by the compile-time model, from descriptions in `data/warmup_workloads.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from published import DATA

from device.compiler.cost import compile_seconds
from device.compiler.program import Program, ProgramBuffer
from device.description import read_table
from device.spec import CardSpec


@dataclass(frozen=True)
class Warmup:
    """What a warm-up is made of, in seconds, and how many graphs it compiles."""

    start: float
    load: float
    compile: float
    graphs: int
    system: str

    @property
    def seconds(self) -> float:
        return self.start + self.load + self.compile


def graph_seconds(graph: dict[str, Any], spec: CardSpec) -> float:
    """Modelled compile time of one graph of a description."""
    buffers = (ProgramBuffer(int(graph["bytes"]), True, True),) * int(graph["tensors"])
    return compile_seconds(Program((), buffers, int(graph["operators"])), spec)


def warmups(spec: CardSpec) -> dict[str, Warmup]:
    """The warm-ups that are described, by the row that they belong to."""
    described = read_table(DATA / "warmup_workloads.toml", "workload")["workload"]
    return {
        entry["row"]: Warmup(
            entry["start_s"],
            entry["weight_bytes"] / entry["read_bytes_per_s"],
            sum(graph["count"] * graph_seconds(graph, spec) for graph in entry["graphs"]),
            sum(graph["count"] for graph in entry["graphs"]),
            entry["system"],
        )
        for entry in described
    }
