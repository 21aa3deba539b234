"""Recurrent cells that reach the card as one operator: the gates' activations in one vector kernel.

Per gate an activation, per hidden unit a handful of products (the matrix products are operators of their own).
"""

from __future__ import annotations

from ..kernel import Kernel
from .operator import Operator, Rule
from .vector_operations import SIGMOID, TANH

PER_GATE_ELEMENT: dict[str, float] = {
    "_thnn_fused_lstm_cell": (3 * SIGMOID + 2 * TANH + 4) / 4,
    "_thnn_fused_lstm_cell_backward_impl": (TANH + 24) / 4,
    "_thnn_fused_gru_cell": (2 * SIGMOID + TANH + 5) / 3,
    "_thnn_fused_gru_cell_backward": 20 / 3,
    "lstm_cell": (3 * SIGMOID + 2 * TANH + 4) / 4,
    "gru_cell": (2 * SIGMOID + TANH + 5) / 3,
}


def cell(operator: Operator) -> list[Kernel]:
    """One kernel for all gates of a step."""
    stem = operator.base.removeprefix("_thnn_fused_").removesuffix("_backward_impl").removesuffix("_backward")
    direction = "bwd" if "backward" in operator.base else "fwd"
    return [operator.tpc(f"{stem}_{direction}", "rnn", operator.elements * PER_GATE_ELEMENT[operator.base])]


RULES: dict[str, Rule] = dict.fromkeys(PER_GATE_ELEMENT, cell)
