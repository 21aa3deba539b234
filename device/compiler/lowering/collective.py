"""Collectives that were recorded into a graph: they run on the network ports.

What they take is the network's and depends on the other ranks, so the timeline adds it when the recipe runs: in the
recipe itself they take no time, and what comes after waits for them.
"""

from __future__ import annotations

from ..kernel import Kernel
from ..program import Engine
from .operator import Operator, Rule, named

COLLECTIVE = "collective"
"""Their kind."""


def collective(operator: Operator) -> list[Kernel]:
    """One kernel of the NIC."""
    return [operator.kernel(Engine.NIC, f"hccl_{operator.base.strip('_')}", COLLECTIVE, 0.0)]


RULES: dict[str, Rule] = named(
    collective, "all_reduce broadcast all_gather_into_tensor reduce_scatter_tensor all_to_all_single"
)
