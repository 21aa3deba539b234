"""Lowering: which engine runs an operator, as which kernels, and how much work and traffic that is.

A rule per operator class, found by the operator's base name. An operator that no rule knows becomes one vector kernel
that streams its operands, so that nothing a script can record fails to compile.
"""

from __future__ import annotations

from ...graph.ir import Graph, Node
from ..kernel import Draft, Kernel
from ..program import ProgramBuffer
from . import (
    attention,
    collective,
    convolution,
    elementwise,
    fill,
    fp8,
    gather,
    loss,
    matrix,
    mixture_of_experts,
    movement,
    normalization,
    optimizer,
    pooling,
    position,
    random,
    reduction,
    rnn,
    softmax,
    sort,
)
from .operator import Operator, Rule

RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **reduction.RULES,
    **normalization.RULES,
    **softmax.RULES,
    **attention.RULES,
    **pooling.RULES,
    **loss.RULES,
    **gather.RULES,
    **sort.RULES,
    **movement.RULES,
    **fill.RULES,
    **random.RULES,
    **optimizer.RULES,
    **rnn.RULES,
    **matrix.RULES,
    **convolution.RULES,
    **fp8.RULES,
    **mixture_of_experts.RULES,
    **position.RULES,
    **collective.RULES,
}


def other(operator: Operator) -> list[Kernel]:
    """An operator without a rule: one operation per element, every operand moved once."""
    return [operator.tpc(f"{operator.base.strip('_') or 'custom'}_fwd", "other", operator.elements)]


def rule_of(base: str) -> Rule:
    """The rule of an operator's base name."""
    if base.startswith(optimizer.FOREACH):
        return optimizer.foreach
    return RULES.get(base, other)


def lower_node(node: Node, number: int, buffers: list[ProgramBuffer]) -> list[Kernel]:
    """The kernels of graph node `number`; buffers inside the operator are appended to `buffers`."""
    operator = Operator(node, number, buffers)
    return rule_of(operator.base)(operator)


def lower(graph: Graph) -> Draft:
    """Every operator of a graph as kernels, in program order, nothing fused or left out."""
    buffers = [ProgramBuffer(buffer.nbytes, buffer.resident, buffer.live) for buffer in graph.buffers]
    kernels = [kernel for number, node in enumerate(graph.nodes) for kernel in lower_node(node, number, buffers)]
    return Draft(tuple(kernels), tuple(buffers), len(graph.nodes))
