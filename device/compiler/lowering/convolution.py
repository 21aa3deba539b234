"""Convolutions: forward and the two backwards as nodes of the matrix engine, the gradient of the bias on the TPC.

The product that a convolution amounts to, with g groups, N images, P output positions each, R kernel positions:

    forward   (g, N P, Cout/g, Cin/g R)
    dedx      (g, N P, Cin/g, Cout/g R)
    dedw      (g, Cout/g, Cin/g R, N P)

A transposed convolution is the dedx of the convolution that it reverses, with the roles of input and output changed,
so P counts the positions of its input.
"""

from __future__ import annotations

from ...graph.ir import Operand, Window
from ..kernel import Kernel, Touch
from ..program import Engine
from .matrix import Shape, factor_dtype, rows_in_order
from .operator import Operator, Rule, touch, volume

FORWARD, INPUT, WEIGHT = "convolution", "convolution_input", "convolution_weight"


def convolution_node(
    operator: Operator, kind: str, shape: Shape, dtype: str, reads: list[Touch], write: Operand, part: str
) -> Kernel:
    batch, m, n, k = shape
    rank = len(write.window.sizes) - 2
    name = {FORWARD: "spatial_convolution", INPUT: "dedx", WEIGHT: "dedw"}[kind] + ("3d" if rank == 3 else "")
    # Images follow one another; the gradient of the weight is complete only after the last of them.
    ordered = kind != WEIGHT and rows_in_order(write.window)
    return operator.kernel(
        Engine.MME,
        name,
        kind,
        2.0 * batch * m * n * k,
        reads=reads,
        writes=[touch(write, in_order=ordered)],
        dtype=dtype,
        shape=shape,
        suffix_="",
        part=part,
    )


def _positions(window: Window) -> int:
    """Images times positions of an (N, C, ...) tensor."""
    return window.sizes[0] * volume(window.sizes[2:]) if len(window.sizes) > 1 else 1


def images(operand: Operand) -> Touch:
    return touch(operand, in_order=rows_in_order(operand.window))


def _shapes(groups: int, positions: int, weight: Window) -> dict[str, Shape]:
    """The three products of the convolution that has this weight (Cout, Cin/g, ...)."""
    outputs, inputs, reach = weight.sizes[0] // groups, weight.sizes[1], volume(weight.sizes[2:])
    return {
        FORWARD: (groups, positions, outputs, inputs * reach),
        INPUT: (groups, positions, inputs, outputs * reach),
        WEIGHT: (groups, outputs, inputs * reach, positions),
    }


def forward(operator: Operator) -> list[Kernel]:
    """convolution; transposed ones are a dedx."""
    source, weight = operator.operand("input", "self"), operator.operand("weight")
    if source is None or weight is None or not operator.writes:
        return [operator.tpc(f"{operator.base}_fwd", "other", operator.elements)]
    groups, transposed = int(operator.attribute("groups", 1)), bool(operator.attribute("transposed", False))
    result = operator.writes[0]
    kind = INPUT if transposed else FORWARD
    shape = _shapes(groups, _positions((source if transposed else result).window), weight.window)[kind]
    rest = [operand for operand in operator.reads if operand is not source and operand is not weight]
    reads = [images(source), touch(weight, in_order=False), *(touch(operand, in_order=False) for operand in rest)]
    return [convolution_node(operator, kind, shape, factor_dtype(source, weight), reads, result, "")]


def backward(operator: Operator) -> list[Kernel]:
    """convolution_backward: a node for each gradient that is asked for."""
    gradient, source = operator.operand("grad_output"), operator.operand("input")
    weight = operator.operand("weight")
    if gradient is None or source is None or weight is None:
        return [operator.tpc(f"{operator.base}_bwd", "other", operator.elements)]
    groups, transposed = int(operator.attribute("groups", 1)), bool(operator.attribute("transposed", False))
    mask = tuple(operator.attribute("output_mask", (True, True, False)))
    made = dict(zip([part for part, wanted in zip("xwb", mask, strict=False) if wanted], operator.writes, strict=False))
    shapes = _shapes(groups, _positions((source if transposed else gradient).window), weight.window)
    dtype = factor_dtype(gradient, weight)
    kernels = []
    if "x" in made:
        kind = FORWARD if transposed else INPUT
        reads = [images(gradient), touch(weight, in_order=False)]
        kernels.append(convolution_node(operator, kind, shapes[kind], dtype, reads, made["x"], "dedx"))
    if "w" in made:
        reads = [images(gradient), images(source)]
        kernels.append(convolution_node(operator, WEIGHT, shapes[WEIGHT], dtype, reads, made["w"], "dedw"))
    if "b" in made:
        kernels.append(
            operator.tpc(
                "reduce_sum_fwd",
                "reduction",
                gradient.window.elements,
                reads=[touch(gradient)],
                writes=[touch(made["b"], in_order=False)],
                dtype=gradient.window.dtype,
                shape=gradient.window.sizes,
                part="bias",
                entry=gradient.window.elements,
            )
        )
    return kernels


def product_shapes(groups: int, result: Window, weight: Window) -> dict[str, Shape]:
    """The products of an ordinary convolution by its result."""
    return _shapes(groups, _positions(result), weight)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("convolution", "_convolution", "convolution_overrideable"), forward),
    **dict.fromkeys(("convolution_backward", "convolution_backward_overrideable"), backward),
}
