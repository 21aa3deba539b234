"""Which engine runs an operator, and how much work it is.

A first lowering: one engine node per operator. Matrix products and convolutions go to the MME, plain copies to the
DMA, all others to the TPC. Views have no node at all.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from ..graph.ir import Node

MATRIX_PRODUCTS = {
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "addbmm",
    "mv",
    "addmv",
    "dot",
    "linear",
    "matmul",
    "_scaled_mm",
}
CONVOLUTIONS = {"convolution", "convolution_backward"}


class Engine(enum.Enum):
    """Engines of the card."""

    MME = "MME"
    TPC = "TPC"
    DMA = "DMA"
    NIC = "NIC"


@dataclass(frozen=True)
class EngineNode:
    """Work for one engine: floating-point operations (MME) or vector operations (TPC), and bytes of HBM traffic."""

    engine: Engine
    name: str
    kind: str
    dtype: str
    operations: float
    nbytes: int
    where: str


def _contraction_operations(node: Node) -> float:
    """2 m k n for factors (m, k) and (k, n): 2 sqrt(|A| |B| |C|), and with a batch b 2 sqrt(|A| |B| |C| / b)."""
    factors = [operand.window for operand in node.inputs if operand.window.sizes][-2:]
    if len(factors) < 2:
        return 0.0
    product = node.outputs[0].window
    batch = product.sizes[0] if len(product.sizes) == 3 else 1
    return 2.0 * math.sqrt(factors[0].elements * factors[1].elements * product.elements / max(batch, 1))


def _convolution_operations(node: Node) -> float:
    """2 x output elements x kernel volume x input channels per group; backward counts each gradient that it makes."""
    by_name = {operand.name: operand.window for operand in node.operands}
    weight = by_name.get("weight")
    if weight is None:
        return 0.0
    reach = math.prod(weight.sizes[1:])
    if node.kind == "convolution":
        return 2.0 * node.results[0].window.elements * reach
    forward = 2.0 * by_name["grad_output"].elements * reach
    mask = dict(node.attributes).get("output_mask", (True, True, False))
    return forward * (int(mask[0]) + int(mask[1]))


def lower(node: Node) -> EngineNode:
    """The engine node of one operator."""
    kind = node.kind
    dtype = (node.outputs or node.operands)[0].window.dtype if (node.outputs or node.operands) else "Float"
    nbytes = sum(operand.window.nbytes for operand in node.inputs + node.outputs)
    if kind in MATRIX_PRODUCTS:
        return EngineNode(Engine.MME, node.op, "gemm", dtype, _contraction_operations(node), nbytes, node.where)
    if kind in CONVOLUTIONS:
        return EngineNode(Engine.MME, node.op, "convolution", dtype, _convolution_operations(node), nbytes, node.where)
    if kind == "copy" and node.operands[0].window.dtype == node.operands[-1].window.dtype:
        return EngineNode(Engine.DMA, node.op, "copy", dtype, 0.0, nbytes, node.where)
    elements = max((operand.window.elements for operand in node.inputs + node.outputs), default=0)
    return EngineNode(Engine.TPC, node.op, kind, dtype, float(elements), nbytes, node.where)
