"""How long an engine node takes on a card, and how long a program takes to compile.

Each engine has its model in a file of its own, with formula and sources; figures stand in the card files. Time on the
host and on the network is the timeline's, not a node's.
"""

from __future__ import annotations

from collections.abc import Collection

from ...spec import CardSpec
from ..program import Engine, EngineNode
from .compile_time import compile_seconds
from .dma import dma_cost, transfer_seconds
from .mme import mme_cost
from .roofline import Cost
from .tpc import tpc_cost

__all__ = ["Cost", "compile_seconds", "node_cost", "transfer_seconds"]


def node_cost(node: EngineNode, spec: CardSpec, on_chip: Collection[int] = ()) -> Cost:
    """The cost of one engine node on a card; `on_chip`: buffers that lie in SRAM."""
    if node.engine is Engine.MME:
        return mme_cost(node, spec, on_chip)
    if node.engine is Engine.TPC:
        return tpc_cost(node, spec, on_chip)
    if node.engine is Engine.NIC:
        return Cost(0.0, "network")
    return dma_cost(node, spec, on_chip)
