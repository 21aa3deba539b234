"""The graph compiler: lower, leave out, fuse; then, for one card, SRAM, schedule and memory.

graph -> lower -> eliminate -> fuse -> Program          the same on every card
Program -> SRAM -> schedule -> memory plan -> Recipe    one card
"""

from __future__ import annotations

from ..graph.ir import Graph
from ..memory import aligned
from ..spec import CardSpec
from .cost import compile_seconds
from .dependencies import uses
from .eliminate import eliminate
from .fusion import fuse
from .lowering import lower
from .memory_plan import Lifetime, plan_memory
from .program import Program
from .recipe import Recipe
from .schedule import schedule
from .sram import plan_sram


def graph_program(graph: Graph) -> Program:
    """The optimized program of a graph, for any card."""
    return fuse(eliminate(lower(graph))).program


def eager_program(graph: Graph) -> Program:
    """The program of a graph as eager mode runs it: every operator, nothing fused."""
    return lower(graph).program


def compile_graph(graph: Graph, spec: CardSpec) -> Recipe:
    """Compile `graph` for a card. Its name is the same in every run."""
    return place(graph_program(graph), spec, f"graph_{graph.signature[:16]}", graph.signature)


def place(program: Program, spec: CardSpec, name: str, signature: str) -> Recipe:
    """Place a program on a card: what stays in SRAM, when each node runs, where the workspace lies."""
    touching = uses(program.nodes)
    sram = plan_sram(program, touching, spec.sram.capacity_bytes)
    nodes = schedule(program, spec, touching, sram)
    memory = plan_memory(
        Lifetime(
            buffer,
            program.buffers[buffer].nbytes,
            min(nodes[number].start for number in numbers),
            max(nodes[number].end for number in numbers),
        )
        for buffer, numbers in touching.items()
        if program.buffers[buffer].is_workspace and buffer not in sram.buffers
    )
    return Recipe(
        name=name,
        signature=signature,
        card=spec.name,
        program=program,
        nodes=nodes,
        seconds=max((node.end for node in nodes), default=0.0) + spec.device.recipe_s,
        compile_seconds=compile_seconds(program, spec),
        workspace_bytes=memory.nbytes,
        output_bytes=sum(aligned(buffer.nbytes) for buffer in program.buffers if buffer.is_output),
        sram_buffers=tuple(sorted(sram.buffers)),
        offsets=tuple(sorted(memory.offsets.items())),
    )
