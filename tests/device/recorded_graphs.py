"""Graphs written by hand, as the recorder gives them: tensors on buffers, operators in program order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from device.compiler.layout import dense, item_bytes
from device.graph.ir import Buffer, Graph, Node, Operand, Window


@dataclass(frozen=True)
class Tensor:
    """A window of a buffer."""

    buffer: int
    window: Window

    def t(self) -> Tensor:
        """The last two dimensions changed with each other."""
        sizes, strides = list(self.window.sizes), list(self.window.strides)
        sizes[-1], sizes[-2] = sizes[-2], sizes[-1]
        strides[-1], strides[-2] = strides[-2], strides[-1]
        return Tensor(self.buffer, replace(self.window, sizes=tuple(sizes), strides=tuple(strides)))

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        sizes = list(self.window.sizes)
        sizes[dim] = length
        offset = self.window.offset + start * self.window.strides[dim]
        return Tensor(self.buffer, replace(self.window, sizes=tuple(sizes), offset=offset))

    def view(self, *sizes: int) -> Tensor:
        """Other sizes of a dense tensor."""
        return Tensor(self.buffer, dense(self.window.dtype, *sizes))

    def expand(self, *sizes: int) -> Tensor:
        """Dimensions of length one, or missing in front, repeated."""
        missing = len(sizes) - len(self.window.sizes)
        old = (1,) * missing + self.window.sizes
        strides = (0,) * missing + self.window.strides
        repeated = tuple(
            0 if was == 1 and now > 1 else stride for was, now, stride in zip(old, sizes, strides, strict=True)
        )
        return Tensor(self.buffer, replace(self.window, sizes=sizes, strides=repeated))


class Recording:
    """Builds a graph."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._buffers: list[Buffer] = []

    def tensor(self, *sizes: int, dtype: str = "Float") -> Tensor:
        """A tensor that holds a value before the graph and lives on: a parameter, a batch."""
        return self._new(dense(dtype, *sizes), resident=True, live=True)

    def empty(self, *sizes: int, dtype: str = "Float") -> Tensor:
        """A tensor without a value that is gone after the graph."""
        return self._new(dense(dtype, *sizes), resident=False, live=False)

    def _new(self, window: Window, resident: bool, live: bool) -> Tensor:
        self._buffers.append(Buffer(window.elements * item_bytes(window.dtype), resident, live))
        return Tensor(len(self._buffers) - 1, window)

    def run(
        self,
        op: str,
        /,
        *,
        out: Sequence[tuple[int, ...]] = (),
        into: Sequence[Tensor] = (),
        changes: Sequence[Tensor] = (),
        dtype: str = "Float",
        attributes: dict[str, Any] | None = None,
        **operands: Tensor | Sequence[Tensor],
    ) -> Any:
        """Record an operator: sizes of new results in `out`, out= tensors in `into`, mutated operands in `changes`."""
        reads = [
            Operand(name, tensor.buffer, tensor.window)
            for name, given in operands.items()
            for tensor in ([given] if isinstance(given, Tensor) else given)
        ]
        made = [self._new(dense(dtype, *sizes), resident=False, live=False) for sizes in out]
        written = [Operand("out", tensor.buffer, tensor.window) for tensor in into]
        written += [Operand("self", tensor.buffer, tensor.window) for tensor in changes]
        self._nodes.append(
            Node(
                f"aten::{op}",
                tuple(reads + [Operand("out", tensor.buffer, tensor.window) for tensor in into]),
                tuple(Operand(f"out{i}", tensor.buffer, tensor.window) for i, tensor in enumerate(made)),
                tuple(written),
                tuple((attributes or {}).items()),
                "train.py:1",
                f"{len(self._nodes)}",
            )
        )
        return made[0] if len(made) == 1 else tuple(made)

    def elementwise(self, op: str, *inputs: Tensor, dtype: str | None = None) -> Tensor:
        """A new tensor of the first operand's sizes."""
        names = ("self", "other", "third")
        result = self.run(
            op,
            out=[inputs[0].window.sizes],
            dtype=dtype or inputs[0].window.dtype,
            **dict(zip(names, inputs, strict=False)),
        )
        assert isinstance(result, Tensor)
        return result

    def matmul(self, left: Tensor, right: Tensor) -> Tensor:
        sizes = (left.window.sizes[0], right.window.sizes[1])
        result = self.run("mm", out=[sizes], dtype=left.window.dtype, self=left, mat2=right)
        assert isinstance(result, Tensor)
        return result

    def copy(self, source: Tensor, into: Tensor) -> Tensor:
        self.run("copy_", self=into, src=source, changes=[into])
        return into

    def cast(self, source: Tensor, dtype: str) -> Tensor:
        return self.copy(source, self.empty(*source.window.sizes, dtype=dtype))

    def keep(self, *tensors: Tensor) -> Graph:
        """The graph, after which these tensors are still referenced."""
        live = {tensor.buffer for tensor in tensors}
        buffers = tuple(
            replace(buffer, live=buffer.live or number in live) for number, buffer in enumerate(self._buffers)
        )
        return Graph("0123456789abcdef", tuple(self._nodes), buffers)
