"""The parts of batch normalization over several cards, spelled out in ordinary operators.

`torch.nn.SyncBatchNorm` computes the statistics of its own batch, exchanges them and goes on with the common ones; for
each part it calls an operator that PyTorch brings for CUDA only. Statistics are in float32 also for narrower inputs.
Inputs have the shape (N, C, ...); statistics have C elements.
"""

from __future__ import annotations

import torch
from torch import Tensor


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def _other_dimensions(tensor: Tensor) -> list[int]:
    return [dimension for dimension in range(tensor.dim()) if dimension != 1]


def _per_channel(values: Tensor, like: Tensor) -> Tensor:
    return values.view([1, -1] + [1] * (like.dim() - 2))


def batch_norm_stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """(mean, 1 / standard deviation) of each channel."""
    variance, mean = torch.var_mean(_wide(input), _other_dimensions(input), correction=0)
    return mean, torch.rsqrt(variance + eps)


def batch_norm_gather_stats_with_counts(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """(mean, 1 / standard deviation) over all ranks from theirs, of shape (ranks, C), and their `counts` of elements.

    The running statistics are brought up to date.
    """
    weights = counts.to(mean.dtype).view(-1, 1)
    total = weights.sum()
    common = (mean * weights).sum(0) / total
    squares = invstd.square().reciprocal() - eps + (mean - common).square()
    summed = (squares * weights).sum(0)
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(common.to(running_mean.dtype), alpha=momentum)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_((summed / (total - 1)).to(running_var.dtype), alpha=momentum)
    return common, torch.rsqrt(summed / total + eps)


def batch_norm_elemt(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float
) -> Tensor:
    """The normalized input, in the input's dtype."""
    normalized = (_wide(input) - _per_channel(mean, input)) * _per_channel(invstd, input)
    if weight is not None:
        normalized = normalized * _per_channel(_wide(weight), input)
    if bias is not None:
        normalized = normalized + _per_channel(_wide(bias), input)
    return normalized.to(input.dtype)


def batch_norm_backward_reduce(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """This rank's (sum of gradients, sum of gradients times the centred input, gradients of weight and bias)."""
    gradient, rest = _wide(grad_out), _other_dimensions(input)
    summed = gradient.sum(rest)
    with_input = (gradient * (_wide(input) - _per_channel(mean, input))).sum(rest)
    dtype = mean.dtype if weight is None else weight.dtype
    return summed, with_input, (with_input * invstd).to(dtype), summed.to(dtype)


def batch_norm_backward_elemt(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    """Gradient of the input from the sums over all ranks; `count` has every rank's number of elements per channel."""
    total = count.sum().to(mean.dtype)
    slope = _per_channel(sum_dy_xmu / total * invstd.square(), input)
    scale = invstd if weight is None else invstd * _wide(weight)
    centred = _wide(input) - _per_channel(mean, input)
    gradient = _wide(grad_out) - _per_channel(sum_dy / total, input) - centred * slope
    return (gradient * _per_channel(scale, input)).to(input.dtype)


def register() -> torch.library.Library:
    """Install the parts for hpu; the library must be kept alive."""
    library = torch.library.Library("aten", "IMPL")
    for part in (
        batch_norm_stats,
        batch_norm_gather_stats_with_counts,
        batch_norm_elemt,
        batch_norm_backward_reduce,
        batch_norm_backward_elemt,
    ):
        library.impl(part.__name__, part, "PrivateUse1")
    return library
