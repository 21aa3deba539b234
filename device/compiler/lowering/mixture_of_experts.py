"""Mixture of experts: per token and chosen expert the three products of a gated layer, and what lies between them.

How many tokens each expert gets depends on data. The model takes tokens x choices rows in all, also where an operator
holds a part of the experts only: its batches are made for all of them. Every weight is read once. What lies between the
products stays on the chip.
"""

from __future__ import annotations

from ...graph.ir import Operand
from ..kernel import Kernel
from .matrix import factor_dtype, product
from .operator import Operator, Rule, touch
from .vector_operations import ERF, SIGMOID

ACTIVATIONS = {"silu": SIGMOID + 1.0, "gelu": ERF + 3.0, "relu": 1.0}


def _weights(operator: Operator) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """(of the first products, of the last)."""
    first = operator.listed("w12") or operator.listed("w1") + operator.listed("w2")
    return first, operator.listed("w3")


def _sizes(operator: Operator) -> tuple[int, int, int]:
    """(rows, hidden, inner width)."""
    states, table = operator.operand("hidden_states"), operator.operand("expert_routing_table")
    _, last = _weights(operator)
    if states is None or table is None or not last:
        return 0, 0, 0
    hidden = states.window.sizes[-1]
    return table.window.elements, hidden, last[0].window.elements // max(1, hidden)


def forward(operator: Operator) -> list[Kernel]:
    """All forms of mixture_of_experts."""
    states = operator.operand("hidden_states")
    rows, hidden, inner = _sizes(operator)
    if not rows or states is None or not operator.writes:
        return [operator.tpc("moe_fwd", "other", operator.elements)]
    first, last = _weights(operator)
    dtype = factor_dtype(states, last[0])
    wide, between = (operator.scratch(dtype, rows, size, in_memory=False) for size in (2 * inner, inner))
    results = operator.scratch(dtype, rows, hidden, in_memory=False)
    known = (states, *first, *last)
    rest = [operand for operand in operator.reads if operand not in known]
    activation = ACTIVATIONS.get(str(operator.attribute("activation", "silu")), SIGMOID)
    return [
        product(
            operator,
            (1, rows, 2 * inner, hidden),
            touch(states, in_order=False),
            touch(first[0]),
            touch(wide, nbytes=0),
            others=[touch(weight) for weight in first[1:]],
            dtype=dtype,
            part="up",
        ),
        operator.tpc(
            "moe_activation_fwd",
            "other",
            rows * inner * (activation + 1.0),
            reads=[touch(wide, nbytes=0)],
            writes=[touch(between, nbytes=0)],
            dtype=dtype,
            shape=(rows, inner),
            part="activation",
        ),
        product(
            operator,
            (1, rows, hidden, inner),
            touch(between, nbytes=0),
            touch(last[0]),
            touch(results, nbytes=0),
            others=[touch(weight) for weight in last[1:]],
            dtype=dtype,
            part="down",
        ),
        operator.tpc(
            "moe_combine_fwd",
            "other",
            2.0 * rows * hidden,
            reads=[touch(results, nbytes=0), *(touch(operand) for operand in rest)],
            dtype=operator.writes[0].window.dtype,
            shape=operator.writes[0].window.sizes,
            part="combine",
        ),
    ]


def backward(operator: Operator) -> list[Kernel]:
    """Its gradient: the first products again, then two products for each of the three."""
    states, gradient = operator.operand("hidden_states"), operator.operand("grad")
    rows, hidden, inner = _sizes(operator)
    if not rows or states is None or gradient is None or len(operator.writes) < 3:
        return [operator.tpc("moe_bwd", "other", operator.elements)]
    first, last = _weights(operator)
    dtype = factor_dtype(states, last[0])
    wide, of_wide = (operator.scratch(dtype, rows, 2 * inner, in_memory=False) for _ in range(2))
    of_inner = operator.scratch(dtype, rows, inner, in_memory=False)
    activation = ACTIVATIONS.get(str(operator.attribute("activation", "silu")), SIGMOID)
    of_states, of_shares, *of_weights = operator.writes

    def node(
        part: str, m: int, n: int, k: int, left: Operand, right: Operand, result: Operand, *more: Operand
    ) -> Kernel:
        inside = (wide, of_wide, of_inner)
        touches = [touch(operand, nbytes=0 if operand in inside else None) for operand in (left, right, result)]
        others = [touch(operand) for operand in more]
        return product(operator, (1, m, n, k), *touches, others=others, dtype=dtype, part=part)

    return [
        node("up", rows, 2 * inner, hidden, states, first[0], wide, *first[1:]),
        node("down_dx", rows, inner, hidden, gradient, last[0], of_inner, *last[1:]),
        operator.tpc(
            "moe_activation_bwd",
            "other",
            rows * inner * (2.0 * activation + 6.0),
            reads=[touch(wide, nbytes=0), touch(of_inner, nbytes=0)],
            writes=[touch(of_wide, nbytes=0), touch(of_shares)],
            dtype=dtype,
            shape=(rows, inner),
            part="activation",
        ),
        node("down_dw", inner, hidden, rows, of_inner, gradient, of_weights[-1]),
        node("up_dw", hidden, 2 * inner, rows, states, of_wide, of_weights[0]),
        node("up_dx", rows, hidden, 2 * inner, of_wide, first[0], of_states, *first[1:]),
    ]


RULES: dict[str, Rule] = {
    "mixture_of_experts": forward,
    "mixture_of_experts_backward": backward,
    "mixture_of_experts_fused_weights_backward": backward,
}
