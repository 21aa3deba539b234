"""Rotary embedding, gathering and unpacking: vector kernels that walk through their operands once."""

from __future__ import annotations

from ..kernel import Kernel
from .operator import Operator, Rule, named

# Vector operations for every element of the result.
COUNTS = {
    "rotary_pos_embedding": ("rope_st2_fwd", 3.0),  # two products and a sum
    "rotary_pos_embedding_backward": ("rope_st2_bwd", 3.0),
    "convert_from_int4": ("dequantize_4_bit_fwd", 4.0),  # shift, mask, subtract, multiply
    "convert_from_uint4": ("dequantize_4_bit_fwd", 4.0),
    "fake_quant_fp4": ("fake_quantize_fp4_fwd", 8.0),  # scale, compare with the grid, scale back
    "kv_reorder": ("kv_reorder_fwd", 1.0),
    "in_place_interleave": ("in_place_interleave_fwd", 1.0),
    "plain_index": ("index_fwd", 1.0),
    "embedding_bag_sum": ("embedding_bag_sum_2d_fwd", 1.0),
}


def walk(operator: Operator) -> list[Kernel]:
    """One kernel; neighbours of an element are taken from local memory."""
    name, count = COUNTS[operator.base]
    elements = max((operand.window.elements for operand in operator.writes), default=0)
    shape = operator.writes[0].window.sizes if operator.writes else None
    return [operator.tpc(name, "other", elements * count, shape=shape)]


RULES: dict[str, Rule] = named(walk, " ".join(COUNTS))
