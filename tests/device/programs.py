"""Programs of a few engine nodes, and recipes of them, for tests that need no graph."""

from __future__ import annotations

from device.compiler.compile import place
from device.compiler.program import Access, Engine, EngineNode, Program, ProgramBuffer
from device.compiler.recipe import Recipe
from device.spec import CardSpec, load_card

GAUDI2 = load_card("gaudi2")


def gemm(number: int, m: int, n: int, k: int) -> EngineNode:
    """A bf16 product of buffer 0, (m, k), and buffer 1, (k, n), into buffer 2."""
    return EngineNode(
        engine=Engine.MME,
        name=f"mm_{number}",
        kernel="gemm_bf16",
        kind="gemm",
        dtype="BFloat16",
        shape=(1, m, n, k),
        operations=2.0 * m * n * k,
        reads=(Access(0, 2 * m * k), Access(1, 2 * k * n)),
        writes=(Access(2, 2 * m * n),),
        sources=(number,),
        where="train.py:7",
    )


def addition(number: int, elements: int) -> EngineNode:
    """A bf16 addition of buffers 0 and 1 into buffer 2."""
    return EngineNode(
        engine=Engine.TPC,
        name=f"add_{number}",
        kernel="add_fwd_bf16",
        kind="elementwise",
        dtype="BFloat16",
        shape=(elements,),
        operations=float(elements),
        reads=(Access(0, 2 * elements), Access(1, 2 * elements)),
        writes=(Access(2, 2 * elements),),
        sources=(number,),
        where="train.py:8",
    )


def program(*nodes: EngineNode) -> Program:
    """A program over two inputs and an output."""
    largest = [0, 0, 0]
    for node in nodes:
        for access in node.reads + node.writes:
            largest[access.buffer] = max(largest[access.buffer], access.nbytes)
    buffers = tuple(ProgramBuffer(nbytes, resident=i < 2, live=True) for i, nbytes in enumerate(largest))
    return Program(nodes, buffers, len(nodes))


def recipe(signature: str, nodes: int = 3, spec: CardSpec = GAUDI2) -> Recipe:
    """A recipe of that signature; what is in it depends on the signature."""
    size = 64 + len(signature)
    made = program(gemm(0, size, 64, 64), *(addition(number, size * number) for number in range(1, nodes)))
    return place(made, spec, f"graph_0_{signature}", signature)
