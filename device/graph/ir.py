"""The graph of one flush: kernels that read and write strided windows of buffers, in program order.

A buffer is one hpu storage. A window is how one tensor looks at it. Views are windows and have no nodes; an in-place
operator writes a buffer that it also reads. Replaying the nodes in order over the buffers' memory gives exactly what
eager execution would have given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

ITEM_BYTES = {
    "Double": 8, "Float": 4, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2, "Char": 1, "Byte": 1,
    "Bool": 1, "Float8_e4m3fn": 1, "Float8_e5m2": 1, "UInt16": 2, "UInt32": 4, "UInt64": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Window:
    """Strided view of a buffer: sizes, strides and offset in elements."""

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)

    @property
    def nbytes(self) -> int:
        """Bytes that a kernel moves to read or write it once: broadcast dimensions (stride 0) count once."""
        moved = math.prod(size for size, stride in zip(self.sizes, self.strides, strict=True) if stride or size == 0)
        return moved * ITEM_BYTES.get(self.dtype, 4)


@dataclass(frozen=True)
class Operand:
    """A tensor argument: its name in the operator's schema, its buffer and its window."""

    name: str
    buffer: int
    window: Window


@dataclass(frozen=True)
class Buffer:
    """A storage in the graph: whether it held a value before (`resident`) and is referenced afterwards (`live`)."""

    nbytes: int
    resident: bool
    live: bool

    @property
    def is_output(self) -> bool:
        return self.live and not self.resident

    @property
    def is_workspace(self) -> bool:
        return not self.live and not self.resident


@dataclass(frozen=True)
class Node:
    """One operator."""

    op: str  # e.g. "aten::add.out"
    operands: tuple[Operand, ...]
    results: tuple[Operand, ...]  # new tensors, named out0, out1, ...
    written: tuple[Operand, ...]  # operands that it mutates: named out (only written) or self (read, too)
    attributes: tuple[tuple[str, Any], ...]  # static arguments
    where: str  # the user's source line, "train.py:31"
    prefix: str  # hash of this node and all before it

    @property
    def kind(self) -> str:
        """Base name of the operator: `add` for `aten::add.out` and `aten::add_.Tensor`."""
        base = self.op.partition("::")[2].partition(".")[0]
        return base.rstrip("_") or base

    @property
    def outputs(self) -> tuple[Operand, ...]:
        return self.results + self.written

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """Operands that are read: all but those of an out= argument."""
        outs = {operand.buffer for operand in self.written if operand.name == "out"}
        return tuple(operand for operand in self.operands if operand.buffer not in outs)


@dataclass(frozen=True)
class Graph:
    """One recorded graph."""

    signature: str
    nodes: tuple[Node, ...]
    buffers: tuple[Buffer, ...]

    @cached_property
    def largest(self) -> int:
        """Bytes of the largest buffer, also of one that nobody reads and that a compiler leaves out."""
        return max((buffer.nbytes for buffer in self.buffers), default=0)

    @cached_property
    def skeleton(self) -> tuple[str, ...]:
        """The operators alone, without shapes, constants and wiring."""
        return tuple(node.op for node in self.nodes)


def graph_of(recording: Any, lines: dict[str, str]) -> Graph:
    """The graph of a native recording. `lines` gives source lines of prefixes that were seen before, and learns."""
    windows = [Window(*fields) for fields in recording.windows()]
    buffers = tuple(Buffer(nbytes, resident, live) for nbytes, resident, live, _ in recording.buffers())
    nodes = []
    for op, operands, results, written, attributes, where, prefix in recording.nodes():
        where = lines.setdefault(prefix, where) or where
        nodes.append(
            Node(
                op,
                tuple(Operand(name, buffer, windows[window]) for name, buffer, window in operands),
                tuple(Operand(f"out{i}", buffer, windows[window]) for i, (buffer, window) in enumerate(results)),
                tuple(
                    Operand("out" if is_out else "self", buffer, windows[window]) for buffer, window, is_out in written
                ),
                tuple((name, _frozen(value)) for name, value in attributes),
                where,
                prefix,
            )
        )
    return Graph(recording.signature, tuple(nodes), buffers)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
