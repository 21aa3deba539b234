"""Layer, group, batch, instance and RMS normalization, forward and backward.

A row that is normalized by itself (layer norm, RMS norm) stays in the vector engine's local memory between the passes
over it, so its operands move once. Batch and group norm go over the whole input twice: for the statistics, and to
apply them. Vector operations per element follow from the formulae:

    forward    mean 1, variance 2, normalize 2, scale and shift 1; converting to float and back 2
    backward   normalize 2, two weighted sums 4, gradient of the input 4, of scale and shift 2; converting 2
"""

from __future__ import annotations

from ..kernel import Kernel
from .operator import Operator, Rule, touch

FORWARD_OPERATIONS, BACKWARD_OPERATIONS = 8.0, 14.0
RMS_FORWARD_OPERATIONS, RMS_BACKWARD_OPERATIONS = 6.0, 12.0  # without the mean

# operator: (kernel, backward, passes over the large operands)
OPERATORS: dict[str, tuple[str, bool, int]] = {
    "native_layer_norm": ("layer_norm_fwd", False, 1),
    "native_layer_norm_backward": ("layer_norm_bwd", True, 1),
    "_fused_rms_norm": ("rms_norm_fwd", False, 1),
    "_fused_rms_norm_backward": ("rms_norm_bwd", True, 1),
    "native_group_norm": ("group_norm_fwd", False, 2),
    "native_group_norm_backward": ("group_norm_bwd", True, 2),
    "native_batch_norm": ("batch_norm_fwd", False, 2),
    "_native_batch_norm_legit": ("batch_norm_fwd", False, 2),
    "_native_batch_norm_legit_functional": ("batch_norm_fwd", False, 2),
    "_native_batch_norm_legit_no_training": ("batch_norm_inf", False, 1),
    "_batch_norm_with_update": ("batch_norm_fwd", False, 2),
    "_batch_norm_with_update_functional": ("batch_norm_fwd", False, 2),
    "_batch_norm_no_update": ("batch_norm_inf", False, 1),
    "batch_norm_backward": ("batch_norm_bwd", True, 2),
    "native_batch_norm_backward": ("batch_norm_bwd", True, 2),
    "batch_norm_stats": ("batch_norm_stats", False, 1),
    "batch_norm_elemt": ("batch_norm_apply", False, 1),
    "batch_norm_backward_reduce": ("batch_norm_bwd_reduce", True, 1),
    "batch_norm_backward_elemt": ("batch_norm_bwd_apply", True, 1),
    "rms_norm": ("rms_norm_fwd", False, 1),
    "rms_norm_fast": ("rms_norm_fast_fwd", False, 1),
    "rms_norm_backward": ("rms_norm_bwd", True, 1),
    "rms_norm_fast_backward": ("rms_norm_fast_bwd", True, 1),
    "instance_norm": ("instance_norm_fwd", False, 2),
    "instance_norm_backward": ("instance_norm_bwd", True, 2),
    "_weight_norm_interface": ("weight_norm_fwd", False, 1),
    "_weight_norm_interface_backward": ("weight_norm_bwd", True, 1),
}


def normalization(operator: Operator) -> list[Kernel]:
    """One kernel; small operands (scale, shift, statistics) move once."""
    name, is_backward, passes = OPERATORS[operator.base]
    if name == "batch_norm_fwd" and not operator.attribute("training", True):
        name, passes = "batch_norm_inf", 1
    source = operator.operand("input", "self", "data_in", "grad_out", "grad_output")
    elements = source.window.elements if source is not None else operator.elements
    rms = "rms" in name
    per_element = {
        (False, False): FORWARD_OPERATIONS,
        (True, False): BACKWARD_OPERATIONS,
        (False, True): RMS_FORWARD_OPERATIONS,
        (True, True): RMS_BACKWARD_OPERATIONS,
    }[is_backward, rms]
    reads = [touch(operand, passes if operand.window.elements == elements else 1) for operand in operator.reads]
    writes = [touch(operand, in_order=passes == 1) for operand in operator.writes]
    if name == "batch_norm_fwd":  # the running statistics change in place though the schema does not say so
        changed = [operand for operand in operator.reads if operand.name in ("running_mean", "running_var")]
        written = {operand.buffer for operand in operator.writes}
        writes += [touch(operand, in_order=False) for operand in changed if operand.buffer not in written]
    return [
        operator.tpc(
            name,
            "normalization",
            elements * per_element,
            reads=reads,
            writes=writes,
            dtype=operator.writes[0].window.dtype if operator.writes else None,
            shape=source.window.sizes if source is not None else None,
            entry=elements if passes == 1 and not is_backward else 0,
            exit=elements,
        )
    ]


RULES: dict[str, Rule] = dict.fromkeys(OPERATORS, normalization)
