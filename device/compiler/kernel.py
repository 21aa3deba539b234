"""The compiler's working form of a graph: kernels over windows of buffers, while passes may still change them.

It keeps what a `Program` drops: the window of each access and whether a kernel works point by point, which elimination
and fusion need.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..graph.ir import Window
from .program import Access, Engine, EngineNode, Program, ProgramBuffer


@dataclass(frozen=True)
class Touch:
    """One kernel's reading or writing of one window: bytes moved, length of the runs (bytes; 0 streams), order."""

    buffer: int
    window: Window
    nbytes: int
    run: int = 0
    in_order: bool = False

    @property
    def access(self) -> Access:
        return Access(self.buffer, self.nbytes, self.run, self.in_order)


@dataclass(frozen=True)
class Kernel:
    """Work for one engine, computed from the graph nodes `sources`.

    `entry` and `exit` are the elements that it walks through, one after the other, when it reads and when it writes;
    0 where nothing may be fused on that side. They are equal in an elementwise kernel; a reduction leaves fewer.
    """

    engine: Engine
    name: str
    kernel: str  # without the dtype: "softmax_fwd"
    suffix: str  # dtype part of the kernel's name: "bf16"; empty for kernels of no dtype
    kind: str
    dtype: str
    shape: tuple[int, ...]
    operations: float
    reads: tuple[Touch, ...]
    writes: tuple[Touch, ...]
    sources: tuple[int, ...]
    where: str
    entry: int = 0
    exit: int = 0

    @property
    def is_pointwise(self) -> bool:
        return self.kind in ("elementwise", "cast") and self.entry > 0

    @property
    def touches(self) -> tuple[Touch, ...]:
        return self.reads + self.writes

    @property
    def node(self) -> EngineNode:
        return EngineNode(
            engine=self.engine,
            name=self.name,
            kernel=f"{self.kernel}_{self.suffix}" if self.suffix else self.kernel,
            kind=self.kind,
            dtype=self.dtype,
            shape=self.shape,
            operations=self.operations,
            reads=tuple(touch.access for touch in self.reads),
            writes=tuple(touch.access for touch in self.writes),
            sources=self.sources,
            where=self.where,
        )


@dataclass(frozen=True)
class Draft:
    """Kernels in an order that keeps every dependency, and the buffers that they use."""

    kernels: tuple[Kernel, ...]
    buffers: tuple[ProgramBuffer, ...]
    operators: int

    @property
    def program(self) -> Program:
        return Program(tuple(kernel.node for kernel in self.kernels), self.buffers, self.operators)


def without_memory(buffers: tuple[ProgramBuffer, ...], numbers: set[int]) -> tuple[ProgramBuffer, ...]:
    """The buffers, with those of `numbers` marked as existing only inside kernels."""
    if not numbers:
        return buffers
    return tuple(replace(buffer, fused=True) if number in numbers else buffer for number, buffer in enumerate(buffers))
