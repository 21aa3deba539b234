"""Which engine runs an operator, and how much work it is.

A first lowering: one engine node per operator. Matrix products and convolutions go to the MME, plain copies to the
DMA, all others to the TPC. Views have no node at all.
"""

from __future__ import annotations

import math

from ..graph.ir import Graph, Node
from .program import Access, Engine, EngineNode, Program, ProgramBuffer

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


def lower_node(node: Node, number: int = 0) -> EngineNode:
    """The engine node of one operator, which is number `number` in its graph."""
    kind = node.kind
    windows = [operand.window for operand in node.outputs or node.operands]
    dtype = windows[0].dtype if windows else "Float"
    engine, what, operations = Engine.TPC, kind, 0.0
    if kind in MATRIX_PRODUCTS:
        engine, what, operations = Engine.MME, "gemm", _contraction_operations(node)
    elif kind in CONVOLUTIONS:
        engine, what, operations = Engine.MME, "convolution", _convolution_operations(node)
    elif kind == "copy" and node.operands[0].window.dtype == node.operands[-1].window.dtype:
        engine, what = Engine.DMA, "copy"
    else:
        operations = float(max((operand.window.elements for operand in node.inputs + node.outputs), default=0))
    return EngineNode(
        engine=engine,
        name=f"{kind}_{number}",
        kernel=kind,
        kind=what,
        dtype=dtype,
        shape=windows[0].sizes if windows else (),
        operations=operations,
        reads=tuple(Access(operand.buffer, operand.window.nbytes) for operand in node.inputs),
        writes=tuple(Access(operand.buffer, operand.window.nbytes) for operand in node.outputs),
        sources=(number,),
        where=node.where,
    )


def lower(graph: Graph) -> Program:
    """The program of a graph."""
    return Program(
        tuple(lower_node(node, number) for number, node in enumerate(graph.nodes)),
        tuple(ProgramBuffer(buffer.nbytes, buffer.resident, buffer.live) for buffer in graph.buffers),
        len(graph.nodes),
    )
