"""What bounds a node: its engine, the memory, or the time to start it.

    memory   max(bytes in HBM / (HBM bandwidth x efficiency), bytes in SRAM / SRAM bandwidth)
    node     max(engine + exposed, memory) + kernel_s

The bound is "latency" where all that is shorter than `kernel_s`, else the larger of engine and memory.

Bytes in HBM: a streaming access moves its bytes. A random one, whose runs are r bytes long, moves whole granules of g
bytes (256 on all Gaudi), so that its bytes count ceil(r / g) g / r times. That is the known weakness of Gaudi at
gathers of short rows: against an A100 with granules of 32 bytes it gives 0.30 of the throughput over runs of 16 to
128 bytes, where arXiv 2501.00210 (ISCA 2025) measured 0.42 for runs under 256 bytes.

Left out: the bandwidth that other engines use at the same time, page misses, repeated rows that stay on the chip.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...spec import CardSpec
from ..program import Access, EngineNode


@dataclass(frozen=True)
class Cost:
    """Duration in seconds, and what bounds it: compute, vector, memory or latency."""

    seconds: float
    bound: str


def hbm_bytes(access: Access, spec: CardSpec) -> float:
    """Bytes that an access moves to or from HBM."""
    if access.run <= 0:
        return float(access.nbytes)
    granule = spec.hbm.granule_bytes
    return access.nbytes * (-(-access.run // granule) * granule / access.run)


def memory_seconds(node: EngineNode, spec: CardSpec, on_chip: Collection[int], repeated: float = 0.0) -> float:
    """Time of a node's accesses; `repeated`: bytes that it reads from HBM again."""
    accesses = node.reads + node.writes
    outside = sum(hbm_bytes(access, spec) for access in accesses if access.buffer not in on_chip) + repeated
    inside = sum(access.nbytes for access in accesses if access.buffer in on_chip)
    return max(
        outside / (spec.hbm.bandwidth_bytes_per_s * spec.hbm.efficiency), inside / spec.sram.bandwidth_bytes_per_s
    )


def bounded(engine: float, memory: float, bound: str, spec: CardSpec, exposed: float = 0.0) -> Cost:
    """The cost of a node that needs so many seconds of its engine, called `bound` if that is the larger, and of memory.

    `exposed`: seconds in which the engine waits for memory.
    """
    seconds = max(engine + exposed, memory)
    if memory >= engine:
        bound = "memory"
    if seconds < spec.device.kernel_s:
        bound = "latency"
    return Cost(seconds + spec.device.kernel_s, bound)
