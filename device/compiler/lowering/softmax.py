"""Softmax and log-softmax, forward and backward: one vector kernel that keeps a row in local memory.

Vector operations per element: forward maximum 1, subtract 1, exponential, sum 1, scale 1 (log-softmax subtracts
instead); backward product 1, sum 1, subtract 1, multiply 1, and an exponential for log-softmax.
"""

from __future__ import annotations

from ..kernel import Kernel
from .operator import Operator, Rule
from .vector_operations import EXPONENTIAL

FORWARD_OPERATIONS = EXPONENTIAL + 4.0
BACKWARD_OPERATIONS = 4.0
LOG_BACKWARD_OPERATIONS = EXPONENTIAL + 3.0

OPERATORS: dict[str, tuple[str, float]] = {
    "softmax": ("softmax_fwd", FORWARD_OPERATIONS),
    "_softmax": ("softmax_fwd", FORWARD_OPERATIONS),
    "_safe_softmax": ("softmax_fwd", FORWARD_OPERATIONS),
    "_masked_softmax": ("masked_softmax_fwd", FORWARD_OPERATIONS + 1),
    "log_softmax": ("log_softmax_fwd", FORWARD_OPERATIONS),
    "_log_softmax": ("log_softmax_fwd", FORWARD_OPERATIONS),
    "custom_softmax": ("softmax_fwd", FORWARD_OPERATIONS),
    "ragged_softmax": ("ragged_softmax_fwd", FORWARD_OPERATIONS + 1),
    "scaled_masked_softmax": ("scaled_masked_softmax_fwd", FORWARD_OPERATIONS + 2),
    "scaled_masked_triangular_softmax": ("scaled_masked_triangular_softmax_fwd", FORWARD_OPERATIONS + 2),
    "scaled_triangular_softmax": ("scaled_masked_triangular_softmax_fwd", FORWARD_OPERATIONS + 2),
    "scaled_triangular_softmax_retain": ("scaled_masked_triangular_softmax_fwd", FORWARD_OPERATIONS + 2),
    "softmax_fp8": ("softmax_fwd_hf8", FORWARD_OPERATIONS + 3),
    "_softmax_backward_data": ("softmax_bwd", BACKWARD_OPERATIONS),
    "_masked_softmax_backward": ("softmax_bwd", BACKWARD_OPERATIONS + 1),
    "_log_softmax_backward_data": ("log_softmax_bwd", LOG_BACKWARD_OPERATIONS),
}


def softmax(operator: Operator) -> list[Kernel]:
    """One kernel; neighbours may be fused into it on both sides."""
    name, count = OPERATORS[operator.base]
    elements = operator.elements
    return [operator.tpc(name, "softmax", elements * count, entry=elements, exit=elements)]


RULES: dict[str, Rule] = dict.fromkeys(OPERATORS, softmax)
