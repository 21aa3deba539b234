"""Copies: on the card at the memory's rate, between host and card over PCIe.

    copy on the card   bytes read and written at the rate of where they lie (`roofline`)
    over PCIe          latency_s + bytes / bandwidth, one way

A node on the NIC costs its memory traffic here; the network's time is the timeline's.
Left out: set-up per DMA descriptor, strided copies.
"""

from __future__ import annotations

from collections.abc import Collection

from ...spec import CardSpec
from ..program import EngineNode
from .roofline import Cost, bounded, memory_seconds


def dma_cost(node: EngineNode, spec: CardSpec, on_chip: Collection[int] = ()) -> Cost:
    """The cost of a copy on the card; `on_chip`: buffers that lie in SRAM."""
    return bounded(0.0, memory_seconds(node, spec, on_chip), "memory", spec)


def transfer_seconds(nbytes: int, spec: CardSpec) -> float:
    """Time of one copy between host and card over PCIe."""
    return spec.pcie.latency_s + nbytes / spec.pcie.bandwidth_bytes_per_s
