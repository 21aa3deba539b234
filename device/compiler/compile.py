"""The graph compiler: lower, plan memory, schedule."""

from __future__ import annotations

from ..graph.ir import Graph
from ..memory import aligned
from ..spec import CardSpec
from .cost import compile_seconds, node_cost
from .lowering import lower
from .recipe import Recipe, ScheduledNode


def workspace_bytes(graph: Graph) -> int:
    """Peak of the buffers that live only inside the graph, each from its first to its last use."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, node in enumerate(graph.nodes):
        for operand in node.operands + node.results:
            if graph.buffers[operand.buffer].is_workspace:
                first.setdefault(operand.buffer, number)
                last[operand.buffer] = number
    changes = [0] * (len(graph.nodes) + 1)
    for buffer, number in first.items():
        size = aligned(graph.buffers[buffer].nbytes)
        changes[number] += size
        changes[last[buffer] + 1] -= size
    peak = current = 0
    for change in changes:
        current += change
        peak = max(peak, current)
    return peak


def compile_graph(graph: Graph, spec: CardSpec, number: int) -> Recipe:
    """Compile `graph` for a card; `number` counts the compilations of the process and is part of the name.

    The first schedule runs the engine nodes one after another.
    """
    scheduled = []
    moment = 0.0
    for node in graph.nodes:
        lowered = lower(node)
        cost = node_cost(lowered, spec)
        scheduled.append(ScheduledNode(lowered, moment, cost.seconds, cost.bound))
        moment += cost.seconds
    return Recipe(
        name=f"graph_{number}_{graph.signature[:12]}",
        graph=graph,
        nodes=tuple(scheduled),
        seconds=moment,
        compile_seconds=compile_seconds(len(graph.nodes), spec),
        workspace_bytes=workspace_bytes(graph),
        output_bytes=sum(aligned(buffer.nbytes) for buffer in graph.buffers if buffer.is_output),
    )
