"""Random numbers: a counter-based generator in the vector engine, then the shape of the distribution.

The generator is Philox 4x32 with ten rounds (Salmon et al. 2011): 10 rounds of two wide products and four exclusive
ors, shared by four numbers, which is 20 operations a number.
"""

from __future__ import annotations

from ..kernel import Kernel
from .operator import Operator, Rule, touch
from .sort import network_steps
from .vector_operations import DIVISION, EXPONENTIAL, LOGARITHM, SINE, SQUARE_ROOT

GENERATOR = 20.0
SHAPING: dict[str, float] = {
    "uniform": 2, "rand": 2, "rand_like": 2, "random": 2, "randint": 2, "randint_like": 2, "bernoulli": 2,
    "native_dropout": 4, "_fused_dropout": 4, "dropout": 4, "alpha_dropout": 6, "feature_dropout": 4,
    "normal": (LOGARITHM + SQUARE_ROOT + SINE) / 2 + 2, "randn": (LOGARITHM + SQUARE_ROOT + SINE) / 2,
    "randn_like": (LOGARITHM + SQUARE_ROOT + SINE) / 2, "exponential": LOGARITHM + 2,
    "log_normal": EXPONENTIAL + (LOGARITHM + SQUARE_ROOT + SINE) / 2, "cauchy": SINE + DIVISION,
    "geometric": LOGARITHM + DIVISION, "poisson": 4 * LOGARITHM, "binomial": 4 * LOGARITHM,
    "_standard_gamma": 4 * LOGARITHM, "_sample_dirichlet": 4 * LOGARITHM, "rrelu_with_noise": 4,
}  # fmt: skip


def random(operator: Operator) -> list[Kernel]:
    """Dropout and the distributions: a draw for every element of the result."""
    drawn = max((operand.window.elements for operand in operator.writes), default=0)
    name = {"native_dropout": "dropout_fwd", "_fused_dropout": "dropout_fwd"}.get(
        operator.base, f"random_{operator.base.strip('_')}_fwd"
    )
    dtype = operator.writes[0].window.dtype if operator.writes else None
    return [operator.tpc(name, "random", drawn * (GENERATOR + SHAPING[operator.base]), dtype=dtype)]


def permutation(operator: Operator) -> list[Kernel]:
    """randperm: random keys, sorted."""
    drawn = sum(operand.window.elements for operand in operator.writes)
    return [operator.tpc("random_shuffle_fwd", "random", drawn * (GENERATOR + network_steps(drawn)))]


def multinomial(operator: Operator) -> list[Kernel]:
    """multinomial: running sums of the weights, and a search for every draw."""
    weights = operator.reads[0].window.elements if operator.reads else 0
    drawn = sum(operand.window.elements for operand in operator.writes)
    return [
        operator.tpc(
            "random_multinomial_fwd",
            "random",
            2.0 * weights + drawn * (GENERATOR + DIVISION),
            writes=[touch(operand, in_order=False) for operand in operator.writes],
        )
    ]


RULES: dict[str, Rule] = {
    **dict.fromkeys(SHAPING, random),
    "randperm": permutation,
    "multinomial": multinomial,
}
