"""Sorting and searching: a bitonic network, log2(n) (log2(n) + 1) / 2 compare-exchanges for each of n elements.

The choice of the network is assumed; top-k keeps k of them, so it needs the network for k and a pass of merges.
"""

from __future__ import annotations

import math

from ..kernel import Kernel
from .operator import Operator, Rule, named, normal_dims, touch


def network_steps(length: int) -> float:
    levels = math.ceil(math.log2(max(length, 2)))
    return levels * (levels + 1) / 2


def _row(operator: Operator) -> tuple[int, int]:
    """(elements, length of a row) of the sorted operand."""
    if not operator.reads:
        return operator.elements, operator.elements
    window = operator.reads[0].window
    if operator.base in ("median", "nanmedian", "unique_dim") and operator.attribute("dim") is None:
        return window.elements, window.elements
    dims = normal_dims(operator.attribute("dim", -1), len(window.sizes))
    return window.elements, window.sizes[dims[0]] if dims else 1


def sort(operator: Operator) -> list[Kernel]:
    """sort, argsort, msort, kthvalue, median, mode."""
    elements, length = _row(operator)
    return [_node(operator, "sort_fwd", elements * network_steps(length))]


def topk(operator: Operator) -> list[Kernel]:
    """topk."""
    elements, length = _row(operator)
    kept = min(int(operator.attribute("k", 1)), length)
    return [_node(operator, "topk_fwd", elements * (network_steps(kept) + 1))]


def search(operator: Operator) -> list[Kernel]:
    """searchsorted and bucketize: a binary search for every value."""
    values = operator.operand("self")
    borders = operator.operand("sorted_sequence", "boundaries")
    count = values.window.elements if values is not None else operator.elements
    row = borders.window.sizes[-1] if borders is not None and borders.window.sizes else 1
    return [_node(operator, "search_sorted_fwd", count * math.ceil(math.log2(row + 1)))]


def _node(operator: Operator, name: str, operations: float) -> Kernel:
    return operator.tpc(
        name,
        "sort",
        operations,
        writes=[touch(operand, in_order=False) for operand in operator.writes],
        dtype=operator.reads[0].window.dtype if operator.reads else None,
        shape=operator.reads[0].window.sizes if operator.reads else None,
    )


RULES: dict[str, Rule] = {
    **named(sort, "sort argsort msort kthvalue median nanmedian mode"),
    "topk": topk,
    **dict.fromkeys(("searchsorted", "bucketize"), search),
}
