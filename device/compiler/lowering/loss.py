"""Losses: vector kernels that end in a sum, and their backwards."""

from __future__ import annotations

from ..kernel import Kernel
from ..layout import item_bytes
from .operator import Operator, Rule, touch
from .vector_operations import DIVISION, EXPONENTIAL, LOGARITHM

# Vector operations per element of the input.
FORWARD: dict[str, float] = {
    "mse_loss": 3, "l1_loss": 3, "smooth_l1_loss": 6, "huber_loss": 6, "kl_div": LOGARITHM + 4,
    "binary_cross_entropy": 2 * LOGARITHM + 5, "binary_cross_entropy_with_logits": EXPONENTIAL + LOGARITHM + 6,
    "soft_margin_loss": EXPONENTIAL + LOGARITHM + 3, "multi_margin_loss": 4, "multilabel_margin_loss_forward": 4,
    "ctc_loss_custom": EXPONENTIAL + LOGARITHM + 6,
    "_ctc_loss": EXPONENTIAL + LOGARITHM + 6, "cosine_embedding_loss": 8, "hinge_embedding_loss": 4,
    "margin_ranking_loss": 4, "poisson_nll_loss": EXPONENTIAL + 3,
}  # fmt: skip
BACKWARD: dict[str, float] = {
    "mse_loss_backward": 3, "l1_loss_backward": 3, "smooth_l1_loss_backward": 6, "huber_loss_backward": 6,
    "kl_div_backward": 3, "binary_cross_entropy_backward": DIVISION + 4, "soft_margin_loss_backward": EXPONENTIAL + 4,
    "multi_margin_loss_backward": 4, "multilabel_margin_loss_backward": 4,
    "ctc_loss_custom_backward": EXPONENTIAL + LOGARITHM + 6, "_ctc_loss_backward": EXPONENTIAL + LOGARITHM + 6,
}  # fmt: skip


def loss(operator: Operator) -> list[Kernel]:
    """Forward and backward of losses that go over all elements."""
    backward = operator.base in BACKWARD
    count = (BACKWARD if backward else FORWARD)[operator.base]
    stem = operator.base.strip("_").removesuffix("_backward").removesuffix("_forward")
    unreduced = bool(operator.writes) and operator.writes[0].window.elements == operator.elements
    return [
        operator.tpc(
            f"{stem}_{'bwd' if backward else 'fwd'}",
            "loss",
            operator.elements * count,
            writes=[touch(operand, in_order=unreduced) for operand in operator.writes],
        )
    ]


def nll(operator: Operator) -> list[Kernel]:
    """nll_loss: takes one element of every row; the backward clears the gradient and sets one element of every row."""
    source, target = operator.operand("self"), operator.operand("target")
    if source is None or target is None:
        return [operator.tpc("nll_loss_fwd", "loss", operator.elements)]
    backward = "backward" in operator.base
    item = item_bytes(source.window.dtype)
    picked = target.window.elements * item
    reads = [
        touch(operand, nbytes=0 if backward else picked, run=item) if operand is source else touch(operand)
        for operand in operator.reads
    ]
    cleared = operator.writes[0].window.elements if backward and operator.writes else 0
    return [
        operator.tpc(
            f"nll_loss_{'bwd' if backward else 'fwd'}",
            "loss",
            cleared + 2.0 * target.window.elements,
            reads=reads,
            writes=[touch(operand, in_order=backward) for operand in operator.writes],
            dtype=source.window.dtype,
            shape=source.window.sizes,
        )
    ]


RULES: dict[str, Rule] = {
    **dict.fromkeys((*FORWARD, *BACKWARD), loss),
    **dict.fromkeys(
        ("nll_loss", "nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward"), nll
    ),
}
