"""A graph without its sizes: what graphs have in common that differ only in shape, and their sizes apart."""

from __future__ import annotations

import hashlib

from .ir import Graph, Operand

SIZE_ATTRIBUTES = frozenset(("size", "sizes", "shape", "input_size", "input_sizes", "output_size", "self_sizes"))
"""Arguments of operators that are sizes of tensors, and so no part of the key."""

Sizes = tuple[tuple[int, ...], ...]
"""The sizes of a graph's inputs: one tuple for each."""


def input_sizes(graph: Graph) -> Sizes:
    """The sizes of a graph's inputs: of each window of a resident buffer that a node reads, and of each argument."""
    found = []
    for node in graph.nodes:
        found += [operand.window.sizes for operand in node.inputs if graph.buffers[operand.buffer].resident]
        found += [
            tuple(value) for name, value in node.attributes if name in SIZE_ATTRIBUTES and isinstance(value, tuple)
        ]
    return tuple(found)


def shape_free_key(graph: Graph) -> str:
    """A hash of all of a graph but sizes, strides and offsets.

    What stays: operators, wiring, dtypes, ranks, static arguments, what lives on, which dimensions are 1 (they
    broadcast) and in which order the others lie in memory.
    """
    state = hashlib.sha256()
    for buffer in graph.buffers:
        state.update(repr((buffer.resident, buffer.live)).encode())
    for node in graph.nodes:
        operands = [_form(operand) for operand in (*node.operands, *node.results, *node.written)]
        attributes = [(name, _sizeless(name, value)) for name, value in node.attributes]
        state.update(repr((node.op, operands, attributes)).encode())
    return state.hexdigest()[:32]


def _form(operand: Operand) -> tuple[object, ...]:
    window = operand.window
    dimensions = range(len(window.sizes))
    spanned = [i for i in dimensions if window.sizes[i] != 1]
    layout = sorted(spanned, key=lambda i: (-window.strides[i], i))
    repeated = [i for i in spanned if window.strides[i] == 0]
    return (operand.name, operand.buffer, window.dtype, len(window.sizes), layout, repeated)


def _sizeless(name: str, value: object) -> object:
    if name in SIZE_ATTRIBUTES and isinstance(value, tuple):
        return tuple(1 if size == 1 else -1 for size in value)
    return value
