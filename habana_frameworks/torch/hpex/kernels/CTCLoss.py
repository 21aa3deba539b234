"""torch.nn.functional.ctc_loss, forward and backward one node each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


class CTCLoss(torch.autograd.Function):
    """`CTCLoss.apply(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False)`.

    Shapes as torch.nn.CTCLoss: log_probs (T, N, C) or (T, C), targets (N, S) or one after the other.
    """

    @staticmethod
    def forward(
        ctx: Any,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor,
        target_lengths: Tensor,
        blank: int = 0,
        reduction: str = "mean",
        zero_infinity: bool = False,
    ) -> Tensor:
        if reduction not in REDUCTIONS:
            raise ValueError(f"{reduction!r} is not a reduction of CTCLoss; use one of {', '.join(REDUCTIONS)}")
        ctx.settings = blank, REDUCTIONS[reduction], zero_infinity
        loss, paths = torch.ops.hpu.ctc_loss_custom(log_probs, targets, input_lengths, target_lengths, *ctx.settings)
        ctx.save_for_backward(log_probs, targets, input_lengths, target_lengths, loss, paths)
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        result = torch.ops.hpu.ctc_loss_custom_backward(grad, *ctx.saved_tensors, *ctx.settings)
        return result, None, None, None, None, None, None
