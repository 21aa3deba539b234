"""Reductions and scans along dimensions.

The kernel reads its operand once. Its result is complete row by row where the outermost dimension stays, and only at
the end where that one is reduced, too.
"""

from __future__ import annotations

from ..kernel import Kernel
from .elementwise import kernel_name, pointwise
from .operator import Operator, Rule, normal_dims, touch
from .vector_operations import EXPONENTIAL, SQUARE_ROOT

# Vector operations for every element that is read.
COUNTS: dict[str, float] = {
    "sum": 1, "nansum": 2, "mean": 1, "prod": 1, "amax": 1, "amin": 1, "aminmax": 2, "max": 2, "min": 2, "argmax": 2,
    "argmin": 2, "any": 1, "all": 1, "count_nonzero": 2, "var": 3, "std": 3, "var_mean": 3, "std_mean": 3,
    "norm": 2, "linalg_vector_norm": 2, "logsumexp": EXPONENTIAL + 3, "trace": 1,
    "cumsum": 2, "cumprod": 2, "cummax": 3, "cummin": 3, "logcumsumexp": 2 * EXPONENTIAL, "renorm": SQUARE_ROOT,
}  # fmt: skip

SCANS = frozenset({"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "renorm"})
SUMMED_LIKE = {"sum": "reduce_sum", "mean": "reduce_mean", "prod": "reduce_prod", "amax": "reduce_max",
               "amin": "reduce_min", "max": "reduce_max", "min": "reduce_min", "any": "reduce_any",
               "all": "reduce_all", "linalg_vector_norm": "reduce_norm", "norm": "reduce_norm"}  # fmt: skip


def reduction(operator: Operator) -> list[Kernel]:
    """sum, mean, amax, argmax, var, norm, cumsum, ...; max and min of two tensors are elementwise."""
    if not operator.reads or not operator.writes:
        return [operator.tpc(f"{operator.base}_fwd", "reduction", operator.elements)]
    source = operator.reads[0].window
    elements = source.elements
    scan = operator.base in SCANS
    reduced = normal_dims(operator.attribute("dim"), len(source.sizes))
    outer = next((dim for dim, size in enumerate(source.sizes) if size > 1), 0)
    by_row = outer not in reduced and not scan
    name = f"{SUMMED_LIKE.get(operator.base, operator.base)}_fwd"
    return [
        operator.tpc(
            name,
            "reduction",
            elements * COUNTS[operator.base],
            reads=[touch(operand, in_order=by_row or not scan) for operand in operator.reads],
            writes=[touch(operand, in_order=by_row) for operand in operator.writes],
            dtype=source.dtype,
            shape=source.sizes,
            entry=0 if scan else elements,
            exit=operator.writes[0].window.elements if by_row else 0,
        )
    ]


def maximum_or_reduction(operator: Operator) -> list[Kernel]:
    """max and min: of two tensors elementwise (`max.other`), otherwise a reduction."""
    if len(operator.reads) == 2 and operator.writes:
        return [pointwise(operator, 1, kernel_name(operator.base))]
    return reduction(operator)


RULES: dict[str, Rule] = {**dict.fromkeys(COUNTS, reduction), "max": maximum_or_reduction, "min": maximum_or_reduction}
