"""A lowered graph: work for the card's engines, before any card's figures come in.

A `Program` is the same on every card, so that a recorded run can be scheduled again on another one.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Engine(enum.Enum):
    """Engines of the card."""

    MME = "MME"
    TPC = "TPC"
    DMA = "DMA"
    NIC = "NIC"


@dataclass(frozen=True)
class Access:
    """A kernel's reading or writing of a buffer: bytes moved, and the length in bytes of the runs it moves at once.

    `run` is 0 for a streaming access; a gather of table rows has the row's bytes there. `in_order`: the kernel goes
    through the buffer from front to back, so that a producer and a consumer can share it slice by slice.
    """

    buffer: int
    nbytes: int
    run: int = 0
    in_order: bool = False


@dataclass(frozen=True)
class EngineNode:
    """Work for one engine.

    `shape` depends on `kind`: (batch, m, n, k) for `gemm`; (batch, m, n, k) of the equivalent product for
    `convolution`, `convolution_input` and `convolution_weight`; the sizes of the largest operand for all others.
    `operations`: floating-point operations (MME), or vector operations, elements times operations each (TPC).
    """

    engine: Engine
    name: str  # unique in the program, from the operator: "addmm_3"
    kernel: str  # what runs on the engine: "gemm_bf16", "softmax_fwd_f32", "fused_kernel_5_bf16"
    kind: str  # gemm, convolution..., elementwise, reduction, normalization, softmax, gather, copy, ...
    dtype: str  # as in the graph: "BFloat16"
    shape: tuple[int, ...]
    operations: float
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    sources: tuple[int, ...]  # the graph nodes that it computes
    where: str  # the user's source line

    @property
    def nbytes(self) -> int:
        """Bytes read and written."""
        return sum(access.nbytes for access in self.reads + self.writes)


@dataclass(frozen=True)
class ProgramBuffer:
    """A buffer of the program. `fused` ones exist only between the operators of one node and take no memory."""

    nbytes: int
    resident: bool  # holds a value before
    live: bool  # is referenced afterwards
    fused: bool = False

    @property
    def is_workspace(self) -> bool:
        return not self.live and not self.resident and not self.fused

    @property
    def is_output(self) -> bool:
        return self.live and not self.resident


@dataclass(frozen=True)
class Program:
    """Engine nodes in program order. Dependencies follow from the order of reads and writes of each buffer."""

    nodes: tuple[EngineNode, ...]
    buffers: tuple[ProgramBuffer, ...]
    operators: int  # nodes of the graph that it came from
