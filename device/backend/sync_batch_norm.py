"""The parts of `SyncBatchNorm`, which PyTorch has for other devices only, spelled out in ordinary operators.

C is the number of channels (dimension 1), W the number of ranks. Statistics are float32 where the input is shorter.
"""

from __future__ import annotations

import torch
from torch import Tensor


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _others(tensor: Tensor) -> list[int]:
    return [dimension for dimension in range(tensor.dim()) if dimension != 1]


def _along(channels: Tensor, like: Tensor) -> Tensor:
    return channels.view([1, -1] + [1] * (like.dim() - 2))


def stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """(mean, 1 / standard deviation) of each channel, shape (C)."""
    wide = _wide(input)
    mean = wide.mean(_others(input))
    variance = (wide - _along(mean, input)).square().mean(_others(input))
    return mean, (variance + eps).rsqrt()


def gather_stats_with_counts(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """(mean, 1 / standard deviation) of all ranks' elements together from each rank's, shape (W, C); `counts` is the
    number of elements of a channel on each rank, shape (W). The running statistics move by `momentum`.
    """
    weights = counts.to(mean.dtype).view(-1, 1)
    total = weights.sum()
    mean_all = (mean * weights).sum(0) / total
    spread = invstd.reciprocal().square() - eps + (mean - mean_all).square()
    squares = (spread * weights).sum(0)
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(mean_all.to(running_mean.dtype), alpha=momentum)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_((squares / (total - 1)).to(running_var.dtype), alpha=momentum)
    return mean_all, (squares / total + eps).rsqrt()


def gather_stats(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    count: int,
) -> tuple[Tensor, Tensor]:
    """`gather_stats_with_counts` where every rank has as many elements."""
    counts = torch.full((mean.shape[0],), count, dtype=mean.dtype, device=mean.device)
    return gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts)


def elements(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float
) -> Tensor:
    """The normalized input, in its dtype."""
    scale = invstd if weight is None else invstd * weight
    output = (_wide(input) - _along(mean, input)) * _along(scale, input)
    if bias is not None:
        output = output + _along(bias, input)
    return output.to(input.dtype)


def backward_reduce(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    """(sum of gradients, sum of gradients times distance from the mean, gradient of weight, of bias), shape (C)."""
    gradient = _wide(grad_out)
    sum_dy = gradient.sum(_others(input))
    sum_dy_xmu = (gradient * (_wide(input) - _along(mean, input))).sum(_others(input))
    dtype = sum_dy.dtype if weight is None else weight.dtype
    return (
        sum_dy if input_g else None,
        sum_dy_xmu if input_g else None,
        (sum_dy_xmu * invstd).to(dtype) if weight_g else None,
        sum_dy.to(dtype) if bias_g else None,
    )


def backward_elements(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    """The gradient of the input from the sums over all ranks; `count` as `counts` above."""
    total = count.sum()
    scale = invstd if weight is None else invstd * weight
    slope = invstd.square() * sum_dy_xmu / total
    distance = _wide(input) - _along(mean, input)
    gradient = _wide(grad_out) - _along(sum_dy / total, input) - distance * _along(slope, input)
    return (gradient * _along(scale, input)).to(input.dtype)


def register() -> torch.library.Library:
    """Give the operators to hpu; they stay registered as long as the returned library lives."""
    library = torch.library.Library("aten", "IMPL")
    for name, kernel in (
        ("batch_norm_stats", stats),
        ("batch_norm_gather_stats", gather_stats),
        ("batch_norm_gather_stats_with_counts", gather_stats_with_counts),
        ("batch_norm_elemt", elements),
        ("batch_norm_backward_reduce", backward_reduce),
        ("batch_norm_backward_elemt", backward_elements),
    ):
        library.impl(name, kernel, "PrivateUse1")
    return library
