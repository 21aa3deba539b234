"""Connectionist temporal classification: PyTorch's own formula, with the reduction inside the operator.

Log-probabilities are (T, N, C) or (T, C), targets (N, S) or one after the other. The second result of the forward holds the
logarithms of the path probabilities, which the backward takes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .registry import Registry

NONE, MEAN, SUM = 0, 1, 2


def _batched(log_probs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return (log_probs.unsqueeze(1), targets.unsqueeze(0)) if log_probs.dim() == 2 else (log_probs, targets)


def _lengths(lengths: Tensor) -> list[int]:
    return [int(length) for length in lengths.reshape(-1)]


def _width(targets: Tensor) -> int:
    """Columns of the path probabilities for the longest target that there can be."""
    return 2 * targets.shape[-1] + 1


def _each(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """(losses, path probabilities (N, T, columns)) without reduction."""
    batch, labels = _batched(log_probs, targets)
    return torch.ops.aten._ctc_loss(
        batch, labels.long(), _lengths(input_lengths), _lengths(target_lengths), blank, False
    )


def forward(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    reduction: int,
    zero_infinity: bool,
) -> tuple[Tensor, Tensor]:
    """ctc_loss_custom: (loss, path probabilities (T, N, columns))."""
    losses, paths = _each(log_probs, targets, input_lengths, target_lengths, blank)
    if zero_infinity:
        losses = torch.where(torch.isinf(losses), torch.zeros_like(losses), losses)
    if reduction == MEAN:
        losses = (losses / target_lengths.reshape(-1).clamp(min=1)).mean()
    elif reduction == SUM:
        losses = losses.sum()
    shape = (log_probs.shape[0], paths.shape[0], _width(targets))
    kept = torch.full(shape, -torch.inf, dtype=log_probs.dtype)
    kept[:, :, : paths.shape[2]] = paths.transpose(0, 1)
    return losses.to(log_probs.dtype), kept


def _forward_shapes(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int, reduction: int,
    zero_infinity: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    if reduction not in (NONE, MEAN, SUM):
        raise RuntimeError(f"hpu::ctc_loss_custom: reduction must be 0 (none), 1 (mean) or 2 (sum); got {reduction}")
    batch = log_probs.shape[1] if log_probs.dim() == 3 else 1
    loss = log_probs.new_empty((batch,) if reduction == NONE else ())
    return loss, log_probs.new_empty((log_probs.shape[0], batch, _width(targets)))


def backward(
    grad: Tensor,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    neg_log_likelihood: Tensor,
    log_alpha: Tensor,
    blank: int,
    reduction: int,
    zero_infinity: bool,
) -> Tensor:
    """ctc_loss_custom_backward: the gradient of the log-probabilities."""
    losses, paths = _each(log_probs, targets, input_lengths, target_lengths, blank)
    count = losses.shape[0]
    share = grad.reshape(-1).expand(count).to(losses.dtype)
    if reduction == MEAN:
        share = share / (target_lengths.reshape(-1).clamp(min=1) * count)
    batch, labels = _batched(log_probs, targets)
    result = torch.ops.aten._ctc_loss_backward(
        share.contiguous(), batch, labels.long(), _lengths(input_lengths), _lengths(target_lengths), losses, paths,
        blank, zero_infinity,
    )  # fmt: skip
    return result.reshape(log_probs.shape).to(log_probs.dtype)


def _backward_shapes(grad: Tensor, log_probs: Tensor, *rest: Any) -> Tensor:
    return log_probs.new_empty(log_probs.shape)


def register(registry: Registry) -> None:
    """ctc_loss_custom and its backward."""
    tensors = "Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
    settings = "int blank, int reduction, bool zero_infinity) -> "
    registry.operator(f"ctc_loss_custom({tensors}{settings}(Tensor, Tensor)", forward, _forward_shapes)
    registry.operator(
        f"ctc_loss_custom_backward(Tensor grad, {tensors}Tensor neg_log_likelihood, Tensor log_alpha, {settings}Tensor",
        backward,
        _backward_shapes,
    )
