"""Elementwise operators: one vector kernel that walks through all operands together."""

from __future__ import annotations

from ..kernel import Kernel
from ..layout import walk
from .operator import Operator, Rule, touch
from .vector_operations import COUNTS, per_element

# Kernels with names of their own; the others are "<operator>_fwd".
NAMES = {
    "threshold_backward": "relu_bwd",
    "native_dropout_backward": "dropout_bwd",
    "mul": "mult_fwd",
    "maximum": "max_fwd",
    "minimum": "min_fwd",
    "log_sigmoid_forward": "log_sigmoid_fwd",
    "eq": "equal_fwd",
    "ne": "not_equal_fwd",
    "lt": "less_fwd",
    "le": "less_equal_fwd",
    "gt": "greater_fwd",
    "ge": "greater_equal_fwd",
    "masked_fill": "where_fwd",
}


def kernel_name(base: str) -> str:
    """`relu_fwd` for relu, `gelu_bwd` for gelu_backward."""
    stem = base.strip("_")
    if base in NAMES:
        return NAMES[base]
    return f"{stem.removesuffix('_backward')}_bwd" if stem.endswith("_backward") else f"{stem}_fwd"


def pointwise(operator: Operator, count: float, name: str) -> Kernel:
    """An elementwise kernel of `count` operations per element of its result."""
    elements = max((operand.window.elements for operand in operator.writes), default=0)
    # Reading and writing one buffer through different windows cannot be shared with other kernels.
    written = {operand.buffer: walk(operand.window) for operand in operator.writes}
    alone = any(written.get(operand.buffer, walk(operand.window)) != walk(operand.window) for operand in operator.reads)
    whole = all(operand.window.elements == elements for operand in operator.writes)
    space = elements if whole and not alone else 0
    return operator.tpc(
        name,
        "elementwise",
        elements * count,
        reads=[touch(operand) for operand in operator.reads],
        entry=space,
        exit=space,
    )


def elementwise(operator: Operator) -> list[Kernel]:
    """Any operator of the table of vector operations."""
    attributes = dict(operator.node.attributes)
    count = per_element(operator.base, attributes)
    return [pointwise(operator, 1 if count is None else count, kernel_name(operator.base))]


RULES: dict[str, Rule] = dict.fromkeys(COUNTS, elementwise)
