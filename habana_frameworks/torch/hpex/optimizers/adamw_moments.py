"""The moments of AdamW as both forms of the fused optimizer keep them, and their update."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .gradients import in_fp8, moment_dtypes, on_card

State = dict[str, Any]


def new_state(parameter: Tensor, moments: Any, step: Any) -> State:
    """Moments of zero; in 8 bits with a scale each."""
    first, second = moment_dtypes(moments, parameter.dtype)
    state = {
        "step": step,
        "exp_avg": torch.zeros(parameter.shape, dtype=first, device=parameter.device),
        "exp_avg_sq": torch.zeros(parameter.shape, dtype=second, device=parameter.device),
    }
    if in_fp8(moments):
        for name in ("exp_avg_scale", "exp_avg_sq_scale"):
            state[name] = torch.ones(1, dtype=torch.float32, device=parameter.device)
    return state


def step_size(lr: float, betas: Sequence[float], step: int, bias_correction: bool) -> float:
    """Learning rate with the correction of both moments."""
    if not bias_correction:
        return lr
    return lr * math.sqrt(1.0 - betas[1] ** step) / (1.0 - betas[0] ** step)


def update(
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    states: Sequence[State],
    size: float,
    betas: Sequence[float],
    eps: float,
    decay: float,
) -> None:
    """One node: w <- decay w - size m / (sqrt(v) + eps)."""
    scales: list[list[Tensor] | None] = [
        [state[name] for state in states] if name in states[0] else None
        for name in ("exp_avg_scale", "exp_avg_sq_scale")
    ]
    torch.ops.hpu.optimizer_adamw(
        list(gradients),
        [parameter.detach() for parameter in parameters],
        [state["exp_avg"] for state in states],
        [state["exp_avg_sq"] for state in states],
        on_card(-size, parameters[0]),
        float(betas[0]),
        float(betas[1]),
        float(eps),
        on_card(decay, parameters[0]),
        decay != 1.0,
        *scales,
    )
