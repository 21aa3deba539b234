"""Casts to and from 8-bit floats on the vector engine, and products of 8-bit floats on the matrix engine.

Scales and a bias are applied in the accumulator, or on the way through the cast, and cost their bytes alone. With an
amax a cast reads its operand a second time in the engine's local memory: one more operation per element.
"""

from __future__ import annotations

from ..kernel import Kernel
from .convolution import FORWARD, convolution_node, images, product_shapes
from .matrix import factor_dtype, gemm_shape, product, rows_in_order
from .operator import Operator, Rule, named, suffix, touch, transposed


def cast(operator: Operator) -> list[Kernel]:
    """cast_to_fp8 and its forms, cast_from_fp8, copies that round."""
    if not operator.reads or not operator.writes:
        return [operator.tpc(f"{operator.base}_fwd", "cast", operator.elements)]
    source, results = operator.reads[0], [w for w in operator.writes if w.window.elements > 1] or operator.writes
    elements = source.window.elements
    several = len(operator.writes) > 1 and operator.writes[-1].window.elements == 1
    count = 1 + (len(operator.reads) > 1) + several
    space = elements if len(results) == 1 and results[0].window.elements == elements else 0
    return [
        operator.tpc(
            f"convert_{suffix(source.window.dtype)}_to",
            "cast",
            float(elements * count),
            suffix_=suffix(results[0].window.dtype),
            dtype=source.window.dtype,
            shape=source.window.sizes,
            writes=[touch(operand, in_order=operand.window.elements == elements) for operand in operator.writes],
            entry=space,
            exit=space,
        )
    ]


def gemm(operator: Operator) -> list[Kernel]:
    """fp8_gemm, fp8_gemm_v2, masked_batch_gemm (its second product as well)."""
    left, right = operator.operand("A", "a"), operator.operand("B", "b")
    if left is None or right is None or not operator.writes:
        return [operator.tpc(f"{operator.base}_fwd", "other", operator.elements)]
    turned = (
        operator.attribute("trans_A", operator.attribute("trans_a", False)),
        operator.attribute("trans_B", operator.attribute("trans_b", False)),
    )
    shape = gemm_shape(transposed(left.window, turned[0]), transposed(right.window, turned[1]))
    result = operator.writes[0]
    others = [operand for operand in operator.reads if operand not in (left, right)]
    main = product(
        operator,
        shape,
        touch(left, in_order=rows_in_order(left.window)),
        touch(right, in_order=shape[0] > 1 and rows_in_order(right.window)),
        touch(result, in_order=rows_in_order(result.window)),
        others=[touch(operand, in_order=False) for operand in others],
        dtype=factor_dtype(left, right),
        kernel="" if operator.base == "masked_batch_gemm" else "fp8_gemm",
    )
    return [main]


def convolution(operator: Operator) -> list[Kernel]:
    """conv2d_fp8."""
    source, weight = operator.operand("input"), operator.operand("weight")
    if source is None or weight is None or not operator.writes:
        return [operator.tpc("conv2d_fp8_fwd", "other", operator.elements)]
    result, groups = operator.writes[0], int(operator.attribute("groups", 1))
    shape = product_shapes(groups, result.window, weight.window)[FORWARD]
    rest = [operand for operand in operator.reads if operand is not source and operand is not weight]
    reads = [images(source), touch(weight, in_order=False), *(touch(operand, in_order=False) for operand in rest)]
    return [convolution_node(operator, FORWARD, shape, factor_dtype(source, weight), reads, result, "")]


RULES: dict[str, Rule] = {
    **named(cast, "cast_to_fp8 cast_to_fp8_v2 cast_to_fp8_hybrid cast_to_fp8_just_in_time cast_from_fp8 copy_to_fp8"),
    **named(gemm, "fp8_gemm fp8_gemm_v2 masked_batch_gemm"),
    "conv2d_fp8": convolution,
}
