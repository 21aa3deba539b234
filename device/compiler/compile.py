"""The graph compiler: lower, plan memory, schedule."""

from __future__ import annotations

from ..graph.ir import Graph
from ..memory import aligned
from ..spec import CardSpec
from .cost import compile_seconds, node_cost
from .lowering import lower
from .program import Program
from .recipe import Recipe, ScheduledNode


def workspace_bytes(program: Program) -> int:
    """Peak of the buffers that live only inside the program, each from its first to its last use."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, node in enumerate(program.nodes):
        for access in node.reads + node.writes:
            if program.buffers[access.buffer].is_workspace:
                first.setdefault(access.buffer, number)
                last[access.buffer] = number
    changes = [0] * (len(program.nodes) + 1)
    for buffer, number in first.items():
        size = aligned(program.buffers[buffer].nbytes)
        changes[number] += size
        changes[last[buffer] + 1] -= size
    peak = current = 0
    for change in changes:
        current += change
        peak = max(peak, current)
    return peak


def compile_graph(graph: Graph, spec: CardSpec) -> Recipe:
    """Compile `graph` for a card. Its name is the same in every run."""
    return place(lower(graph), spec, f"graph_{graph.signature[:16]}", graph.signature)


def place(program: Program, spec: CardSpec, name: str, signature: str) -> Recipe:
    """Schedule a program on a card's engines."""
    scheduled = []
    moment = 0.0
    for node in program.nodes:
        cost = node_cost(node, spec)
        scheduled.append(ScheduledNode(node, moment, cost.seconds, cost.bound))
        moment += cost.seconds
    return Recipe(
        name=name,
        signature=signature,
        card=spec.name,
        program=program,
        nodes=tuple(scheduled),
        seconds=moment,
        compile_seconds=compile_seconds(program, spec),
        workspace_bytes=workspace_bytes(program),
        output_bytes=sum(aligned(buffer.nbytes) for buffer in program.buffers if buffer.is_output),
    )
