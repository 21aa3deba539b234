"""Softmax of rows of different lengths."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch
from torch import Tensor


class RaggedSoftmax(torch.autograd.Function):
    """`RaggedSoftmax.apply(input, dim, half_to_float, valid_count)`: each row's first elements count; zeros behind."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, dim: int, half_to_float: bool, valid_count: Tensor) -> Tensor:
        result = torch.ops.hpu.ragged_softmax(input, dim, half_to_float, valid_count)
        ctx.save_for_backward(result)
        ctx.dim, ctx.dtype = dim, input.dtype
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        (result,) = ctx.saved_tensors
        return torch._softmax_backward_data(grad, result, ctx.dim, ctx.dtype), None, None, None


@cache
def valid_counts(p: int, q: int, device: torch.device) -> Tensor:
    """1, 2, ... q, repeated `p` times."""
    return torch.arange(1, q + 1).repeat(p).to(device)


def triu_masked_softmax(input: Tensor) -> Tensor:
    """Softmax of the lower triangle of each matrix (..., q, r)."""
    if input.dim() < 2:
        raise ValueError(f"triu_masked_softmax takes at least 2 dimensions; input has {input.dim()}")
    p, q, r = math.prod(input.shape[:-2]), input.shape[-2], input.shape[-1]
    counts = valid_counts(p, q, input.device)
    return RaggedSoftmax.apply(input.reshape(p * q, 1, 1, r), -1, False, counts).reshape(input.shape)
