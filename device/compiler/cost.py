"""How long an engine node takes: a roofline per engine.

    MME   max(operations / (peak x efficiency), bytes / (HBM bandwidth x efficiency))
    TPC   max(elements x item size / (cores x lanes x clock), bytes / (HBM bandwidth x efficiency))
    DMA   bytes / (HBM bandwidth x efficiency)

plus the time to start and drain a node. Left out for now: edge waste of the matrix engine, SRAM, fusion, overlap of
engines. The figures stand in the card files.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..graph.ir import ITEM_BYTES
from ..spec import CardSpec
from .program import Engine, EngineNode, Program

_PEAK_OF = {
    "BFloat16": "bfloat16",
    "Half": "float16",
    "Float8_e4m3fn": "float8",
    "Float8_e5m2": "float8",
}


@dataclass(frozen=True)
class Cost:
    """Duration in seconds, and what bounds it: compute, vector, memory or latency."""

    seconds: float
    bound: str


def node_cost(node: EngineNode, spec: CardSpec, on_chip: Collection[int] = ()) -> Cost:
    """The cost of one engine node on a card; `on_chip`: buffers that lie in SRAM."""
    memory = node.nbytes / (spec.hbm.bandwidth_bytes_per_s * spec.hbm.efficiency)
    compute, bound = 0.0, "memory"
    if node.engine is Engine.MME:
        peak = spec.mme.peak_flops.get(_PEAK_OF.get(node.dtype, "float32"), spec.mme.peak_flops["float32"])
        share = spec.mme.convolution_efficiency if node.kind == "convolution" else spec.mme.gemm_efficiency
        compute, bound = node.operations / (peak * share), "compute"
    elif node.engine is Engine.TPC:
        per_second = spec.tpc.count * spec.tpc.lanes_bytes * spec.tpc.clock_hz
        compute, bound = node.operations * ITEM_BYTES.get(node.dtype, 4) / per_second, "vector"
    seconds = max(compute, memory)
    if memory >= compute:
        bound = "memory"
    if seconds < spec.device.kernel_s:
        bound = "latency"
    return Cost(seconds + spec.device.kernel_s, bound)


def compile_seconds(program: Program, spec: CardSpec) -> float:
    """Modelled time of compiling a program."""
    return spec.compile.base_s + program.operators * spec.compile.node_s


def transfer_seconds(nbytes: int, spec: CardSpec) -> float:
    """Time of one copy between host and card over PCIe."""
    return spec.pcie.latency_s + nbytes / spec.pcie.bandwidth_bytes_per_s
