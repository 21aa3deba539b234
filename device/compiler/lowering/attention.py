"""Scaled dot-product attention as a device operator: products on the matrix engine, softmax on the vector engine.

Forward: scores = q k^T, softmax, scores v. Backward: the scores again, the gradients of v and of the probabilities,
the backward of the softmax, the gradients of q and k: five products. The fused kernels keep the scores on the chip, so
nothing of them goes to memory; the plain variants return the probabilities.
"""

from __future__ import annotations

from ...graph.ir import Operand
from ..kernel import Kernel, Touch
from .matrix import factor_dtype, product
from .operator import Operator, Rule, named, touch, volume
from .softmax import BACKWARD_OPERATIONS, FORWARD_OPERATIONS


def _follow(operand: Operand) -> Touch:
    """An access for order's sake alone: no bytes."""
    return touch(operand, nbytes=0)


def _sizes(query: Operand, key: Operand, value: Operand) -> tuple[int, int, int, int, int]:
    """(heads over the batch, queries, keys, width, width of the values)."""
    q, k, v = query.window.sizes, key.window.sizes, value.window.sizes
    return volume(q[:-2]), q[-2], k[-2], q[-1], v[-1]


def forward(operator: Operator) -> list[Kernel]:
    """_scaled_dot_product_*_attention, _flash_attention_forward, sdpa forwards of the card."""
    query, key = operator.operand("query", "q"), operator.operand("key", "k")
    value = operator.operand("value", "v")
    if query is None or key is None or value is None or not operator.writes:
        return [operator.tpc("sdpa_fwd", "attention", operator.elements)]
    batch, queries, keys, width, value_width = _sizes(query, key, value)
    dtype = factor_dtype(query, key)
    scores = operator.scratch(dtype, batch, queries, keys, in_memory=False)
    weights = operator.scratch(dtype, batch, queries, keys, in_memory=False)
    masks = [operand for operand in operator.reads if operand not in (query, key, value)]
    result, statistics = operator.writes[0], operator.writes[1:]
    elements = scores.window.elements
    return [
        product(
            operator, (batch, queries, keys, width), touch(query), touch(key), _follow(scores), dtype=dtype, part="qk"
        ),
        operator.tpc(
            "softmax_fwd",
            "softmax",
            elements * (FORWARD_OPERATIONS + 1),
            reads=[_follow(scores), *(touch(mask) for mask in masks)],
            writes=[_follow(weights), *(touch(operand) for operand in statistics)],
            dtype=dtype,
            shape=scores.window.sizes,
            part="softmax",
        ),
        product(
            operator,
            (batch, queries, value_width, keys),
            _follow(weights),
            touch(value),
            touch(result),
            dtype=dtype,
            part="pv",
        ),
    ]


def backward(operator: Operator) -> list[Kernel]:
    """The backwards of the same operators."""
    gradient = operator.operand("grad_out", "grad_out_", "grad_output", "grad", "dout")
    query, key = operator.operand("query", "q"), operator.operand("key", "k")
    value = operator.operand("value", "v")
    if gradient is None or query is None or key is None or value is None or len(operator.writes) < 3:
        return [operator.tpc("sdpa_bwd", "attention", operator.elements)]
    batch, queries, keys, width, value_width = _sizes(query, key, value)
    dtype = factor_dtype(query, key)
    scores, slopes, changes = (operator.scratch(dtype, batch, queries, keys, in_memory=False) for _ in range(3))
    grad_query, grad_key, grad_value = operator.writes[:3]
    known = (gradient, query, key, value)
    rest = [operand for operand in operator.reads if operand not in known]
    made = operator.writes[3:]
    elements = scores.window.elements

    def node(part: str, m: int, n: int, k: int, left: Touch, right: Touch, result: Touch) -> Kernel:
        return product(operator, (batch, m, n, k), left, right, result, dtype=dtype, part=part)

    return [
        node("qk", queries, keys, width, touch(query), touch(key), _follow(scores)),
        node("dp", queries, keys, value_width, touch(gradient), touch(value), _follow(slopes)),
        operator.tpc(
            "softmax_bwd",
            "softmax",
            elements * (FORWARD_OPERATIONS + BACKWARD_OPERATIONS),
            reads=[_follow(scores), _follow(slopes), *(touch(operand) for operand in rest)],
            writes=[_follow(changes), *(touch(operand) for operand in made)],
            dtype=dtype,
            shape=scores.window.sizes,
            part="softmax",
        ),
        node("dv", keys, value_width, queries, _follow(changes), touch(gradient), touch(grad_value)),
        node("dq", queries, width, keys, _follow(changes), touch(key), touch(grad_query)),
        node("dk", keys, width, queries, _follow(changes), touch(query), touch(grad_key)),
    ]


def stored_backward(operator: Operator) -> list[Kernel]:
    """sdpa_bwd: the probabilities come from memory, so the first product is not computed again."""
    gradient, probabilities = operator.operand("grad"), operator.operand("P")
    query, key, value = operator.operand("q"), operator.operand("k"), operator.operand("v")
    found = (gradient, query, key, value, probabilities)
    if None in found or len(operator.writes) < 3:
        return [operator.tpc("sdpa_bwd", "attention", operator.elements)]
    assert gradient is not None and query is not None and key is not None
    assert value is not None and probabilities is not None
    batch, queries, keys, width, value_width = _sizes(query, key, value)
    dtype = factor_dtype(query, key)
    slopes, changes = (operator.scratch(dtype, batch, queries, keys, in_memory=False) for _ in range(2))
    rest = [operand for operand in operator.reads if operand not in found]
    grad_query, grad_key, grad_value = operator.writes[:3]

    def node(part: str, m: int, n: int, k: int, left: Touch, right: Touch, result: Touch) -> Kernel:
        return product(operator, (batch, m, n, k), left, right, result, dtype=dtype, part=part)

    return [
        node("dp", queries, keys, value_width, touch(gradient), touch(value), _follow(slopes)),
        operator.tpc(
            "softmax_bwd",
            "softmax",
            slopes.window.elements * BACKWARD_OPERATIONS,
            reads=[touch(probabilities), _follow(slopes), *(touch(operand) for operand in rest)],
            writes=[_follow(changes), *(touch(operand) for operand in operator.writes[3:])],
            dtype=dtype,
            shape=slopes.window.sizes,
            part="softmax",
        ),
        node("dv", keys, value_width, queries, touch(probabilities), touch(gradient), touch(grad_value)),
        node("dq", queries, width, keys, _follow(changes), touch(key), touch(grad_query)),
        node("dk", keys, width, queries, _follow(changes), touch(query), touch(grad_key)),
    ]


VARIANTS = ("flash_attention", "efficient_attention", "fused_attention_overrideable", "cudnn_attention",
            "flash_attention_for_cpu", "attention_math")  # fmt: skip

# The card's own: with stored and with recomputed probabilities, as programs and as the compiler name them.
CARD, FORMS = ("sdpa_fwd", "sdpa_recomp_fwd"), ("", "_dropout", "_non_dropout", "_dropout_seed")

RULES: dict[str, Rule] = {
    **{f"_scaled_dot_product_{variant}": forward for variant in VARIANTS},
    **{f"_scaled_dot_product_{variant}_backward": backward for variant in VARIANTS},
    **named(forward, "_flash_attention_forward _efficient_attention_forward"),
    **dict.fromkeys((prefix + name + form for prefix in ("", "fp8_") for name in CARD for form in FORMS), forward),
    **named(backward, "_flash_attention_backward _efficient_attention_backward sdpa_recomp_bwd"),
    **named(stored_backward, "sdpa_bwd fp8_sdpa_bwd"),
}
