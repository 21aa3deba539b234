"""Vector work on the TPC cores.

    vector   operations x item bytes / (cores x bytes per cycle and core x clock)

One lane does one operation per cycle (docs.habana.ai, TPC User Guide: 2048-bit SIMD, so 64 fp32 or 128 bf16
operations a cycle); how many operations an element takes stands in the node. Memory by `roofline`: bytes, and short
runs of gathers.

Left out: how work divides over the cores (a node too small for all of them is bound by `kernel_s` anyway), slots of the
VLIW word that run empty, the cores' local memory.
"""

from __future__ import annotations

from collections.abc import Collection

from ...graph.ir import ITEM_BYTES
from ...spec import CardSpec
from ..program import EngineNode
from .roofline import Cost, bounded, memory_seconds


def tpc_cost(node: EngineNode, spec: CardSpec, on_chip: Collection[int] = ()) -> Cost:
    """The cost of a vector kernel; `on_chip`: buffers that lie in SRAM."""
    bytes_per_s = spec.tpc.count * spec.tpc.lanes_bytes * spec.tpc.clock_hz
    vector = node.operations * ITEM_BYTES.get(node.dtype, 4) / bytes_per_s
    return bounded(vector, memory_seconds(node, spec, on_chip), "vector", spec)
