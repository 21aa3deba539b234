"""Vector operations per element of the elementwise operators.

One for what the vector engine does in one instruction (add, multiply, multiply-add, compare, select, min, max, round).
The others are assumed: no count is published, so each figure is the length of the usual sequence (range reduction and
a polynomial of degree five to eight, or a reciprocal estimate with two Newton steps) at one instruction a step.
"""

from __future__ import annotations

from typing import Any

RECIPROCAL, SQUARE_ROOT, EXPONENTIAL, LOGARITHM, SINE = 6, 7, 10, 12, 14  # assumed, see above
DIVISION = RECIPROCAL + 1
SIGMOID = EXPONENTIAL + RECIPROCAL + 1
TANH = SIGMOID + 1
ERF = EXPONENTIAL + 8
POWER = LOGARITHM + EXPONENTIAL + 1

SINGLE = (
    "add sub rsub mul neg abs maximum minimum fmax fmin eq ne lt le gt ge where logical_and logical_or logical_not "
    "logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not and or xor iand ior ixor sign relu clamp_min clamp_max "
    "masked_fill floor ceil round trunc square positive lshift rshift bitwise_left_shift bitwise_right_shift isnan "
    "isinf isposinf isneginf isfinite signbit heaviside to _to_copy clone conj_physical sgn alias "
    "real view_as_real copysign nextafter fill_diagonal is_nonzero"
)  # fmt: skip

COUNTS: dict[str, float] = {
    **dict.fromkeys(SINGLE.split(), 1),
    "clamp": 2, "clip": 2, "relu6": 2, "hardtanh": 2, "hardtanh_backward": 3, "threshold": 2, "threshold_backward": 2,
    "leaky_relu": 2, "leaky_relu_backward": 3, "prelu": 2, "_prelu_kernel": 2, "_prelu_kernel_backward": 4,
    "rrelu_with_noise": 3, "hardsigmoid": 3, "hardsigmoid_backward": 3, "hardswish": 4, "hardswish_backward": 5,
    "hardshrink": 3, "softshrink": 3, "hardshrink_backward": 3, "softshrink_backward": 3,
    "addcmul": 2, "lerp": 2, "addr": 2, "outer": 1, "nan_to_num": 3, "frac": 2, "tril": 2, "triu": 2,
    "native_dropout_backward": 2, "_masked_scale": 2,
    "fmod": DIVISION + 3, "remainder": DIVISION + 4, "floor_divide": DIVISION + 1, "div": DIVISION,
    "true_divide": DIVISION, "divide": DIVISION, "addcdiv": DIVISION + 1, "reciprocal": RECIPROCAL,
    "sqrt": SQUARE_ROOT, "rsqrt": SQUARE_ROOT, "hypot": SQUARE_ROOT + 2,
    "exp": EXPONENTIAL, "exp2": EXPONENTIAL, "expm1": EXPONENTIAL + 1, "log": LOGARITHM, "log2": LOGARITHM,
    "log10": LOGARITHM, "log1p": LOGARITHM + 1, "xlogy": LOGARITHM + 2, "logaddexp": LOGARITHM + EXPONENTIAL + 3,
    "pow": POWER, "float_power": POWER, "logit": LOGARITHM + DIVISION, "logit_backward": DIVISION + 3,
    "sin": SINE, "cos": SINE, "tan": 2 * SINE + DIVISION, "asin": SINE + 6, "acos": SINE + 6, "atan": SINE,
    "atan2": SINE + DIVISION, "sinh": EXPONENTIAL + DIVISION + 1, "cosh": EXPONENTIAL + DIVISION + 1,
    "asinh": LOGARITHM + SQUARE_ROOT + 2, "acosh": LOGARITHM + SQUARE_ROOT + 2, "atanh": LOGARITHM + DIVISION + 2,
    "sinc": SINE + DIVISION, "sigmoid": SIGMOID, "sigmoid_backward": 3, "tanh": TANH, "tanh_backward": 3,
    "erf": ERF, "erfc": ERF + 1, "erfinv": 2 * LOGARITHM, "lgamma": 2 * LOGARITHM, "digamma": 2 * LOGARITHM,
    "gelu": ERF + 3, "gelu_backward": ERF + EXPONENTIAL + 6, "silu": SIGMOID + 1, "silu_backward": SIGMOID + 5,
    "mish": EXPONENTIAL + LOGARITHM + TANH + 2, "mish_backward": EXPONENTIAL + LOGARITHM + TANH + SIGMOID + 6,
    "softplus": EXPONENTIAL + LOGARITHM + 2, "softplus_backward": SIGMOID + 2, "log_sigmoid_forward": SIGMOID,
    "log_sigmoid_backward": EXPONENTIAL + DIVISION + 3, "elu": EXPONENTIAL + 3, "elu_backward": EXPONENTIAL + 4,
    "exp_fast_math": EXPONENTIAL, "sqrt_fast_math": SQUARE_ROOT, "rsqrt_fast_math": SQUARE_ROOT,
    "glu": SIGMOID + 1, "glu_backward": SIGMOID + 4, "special_entr": LOGARITHM + 2,
}  # fmt: skip

TANH_GELU = {"gelu": TANH + 6, "gelu_backward": TANH + 14}


def per_element(base: str, attributes: dict[str, Any]) -> float | None:
    """Vector operations per element of an elementwise operator; None for one that is not known as elementwise."""
    if base == "pow":
        exponent = attributes.get("exponent")
        if exponent in (0, 1, 2):
            return 1
        if exponent in (3, 4):
            return 2
        if exponent in (0.5, -0.5):
            return SQUARE_ROOT
        if exponent == -1:
            return RECIPROCAL
    if base in ("div", "true_divide", "divide") and "other" in attributes:
        return 1  # by a number: a product with its reciprocal
    if attributes.get("approximate") == "tanh" and base in TANH_GELU:
        return TANH_GELU[base]
    return COUNTS.get(base)
