"""Matrix products: shape (batch, m, n, k) and 2 x batch x m x n x k operations on the matrix engine.

A factor that is a transposed view is read as it lies: the engine transposes on the way in. A bias is added in the
accumulator and costs its bytes alone; the activation of `_addmm_activation` is a vector kernel of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...graph.ir import Operand, Window
from ..kernel import Kernel, Touch
from ..layout import is_broadcast, is_dense, item_bytes
from ..program import Engine
from .operator import Operator, Rule, named, touch, volume
from .vector_operations import TANH_GELU

Shape = tuple[int, int, int, int]


def rows_in_order(window: Window) -> bool:
    """A factor or product that the engine can take row by row, from the front of its buffer."""
    return is_dense(window) and not is_broadcast(window)


def product(
    operator: Operator,
    shape: Shape,
    left: Touch,
    right: Touch,
    result: Touch,
    *,
    others: Iterable[Touch] = (),
    dtype: str,
    part: str = "",
    kernel: str = "",
) -> Kernel:
    """A node of the matrix engine; `kernel` is gemm or batch_gemm unless given."""
    batch, m, n, k = shape
    return operator.kernel(
        Engine.MME,
        kernel or ("batch_gemm" if batch > 1 else "gemm"),
        "gemm",
        2.0 * batch * m * n * k,
        reads=[left, right, *others],
        writes=[result],
        dtype=dtype,
        shape=shape,
        suffix_="",
        part=part,
    )


def factor_dtype(left: Operand, right: Operand) -> str:
    """The dtype that sets the engine's rate: that of the wider factor."""
    return max(left.window.dtype, right.window.dtype, key=item_bytes)


def gemm_shape(left: Window, right: Window, linear: bool = False) -> Shape:
    """(batch, m, n, k) of a product as torch.matmul pairs dimensions; `linear`: right is (n, k)."""
    if linear:
        n, k = right.sizes if len(right.sizes) == 2 else (1, right.elements)
        return 1, left.elements // max(k, 1), n, k
    a, b = left.sizes, right.sizes
    if len(a) == 1 and len(b) == 1:
        return 1, 1, 1, a[0]
    if len(a) == 1:
        return volume(b[:-2]), 1, b[-1], a[0]
    if len(b) == 1:
        return 1, volume(a[:-1]), 1, b[0]
    if len(b) == 2:
        return 1, volume(a[:-1]), b[-1], a[-1]
    batch = max(volume(a[:-2]), volume(b[:-2]))
    return batch, a[-2], b[-1], a[-1]


def factors(operator: Operator) -> tuple[Operand, Operand] | None:
    """The two factors by the names that the schemas give them."""
    left = operator.operand("mat1", "batch1", "mat", "input", "self", "a")
    right = operator.operand("mat2", "batch2", "vec", "vec2", "weight", "tensor", "other", "b")
    return (left, right) if left is not None and right is not None else None


def matrix_product(operator: Operator) -> list[Kernel]:
    """mm, bmm, addmm, baddbmm, addbmm, mv, addmv, dot, linear, matmul, _scaled_mm, _int_mm, _addmm_activation."""
    found = factors(operator)
    if found is None or not operator.writes:
        return [operator.tpc(f"{operator.base}_fwd", "other", operator.elements)]
    left, right = found
    shape = gemm_shape(left.window, right.window, operator.base == "linear")
    others = [operand for operand in operator.reads if operand is not left and operand is not right]
    result = operator.writes[0]
    by_row = operator.base != "addbmm" and rows_in_order(result.window)
    batched = shape[0] > 1
    main = product(
        operator,
        shape,
        touch(left, in_order=rows_in_order(left.window)),
        touch(right, in_order=batched and rows_in_order(right.window)),
        touch(result, in_order=by_row),
        others=[touch(operand, in_order=False) for operand in others],
        dtype=factor_dtype(left, right),
    )
    if operator.base != "_addmm_activation":
        return [main]
    elements = result.window.elements
    with_gelu = operator.attribute("use_gelu", False)
    activation = operator.tpc(
        "gelu_fwd" if with_gelu else "relu_fwd",
        "elementwise",
        elements * (TANH_GELU["gelu"] if with_gelu else 1),
        reads=[touch(result)],
        writes=[touch(result)],
        dtype=result.window.dtype,
        part="activation",
        entry=elements,
        exit=elements,
    )
    return [main, activation]


def bilinear(operator: Operator) -> list[Kernel]:
    """_trilinear as nn.Bilinear uses it: the three operands multiplied and summed over the reduced dimensions."""
    operations = 2.0 * volume(max(sizes) for sizes in zip(*(o.window.sizes for o in operator.reads), strict=False))
    return [operator.tpc("trilinear_fwd", "reduction", operations)]


def pairwise_distance(operator: Operator) -> list[Kernel]:
    """_cdist_forward: a difference, a power and a sum for every pair of rows and every column."""
    columns = operator.reads[0].window.sizes[-1] if operator.reads and operator.reads[0].window.sizes else 1
    pairs = operator.writes[0].window.elements if operator.writes else 0
    return [operator.tpc("cdist_fwd", "reduction", 3.0 * pairs * columns)]


RULES: dict[str, Rule] = {
    **named(
        matrix_product,
        "mm addmm bmm baddbmm addbmm mv addmv dot vdot linear matmul inner _scaled_mm _int_mm _addmm_activation "
        "linalg_vecdot chain_matmul",
    ),
    "_trilinear": bilinear,
    "_cdist_forward": pairwise_distance,
}
