"""Softmax over the last dimension with a choice of the exponential."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class CustomSoftmax(torch.autograd.Function):
    """`CustomSoftmax.apply(inp, flavor)` for bfloat16; flavor 0: the usual exponential, 1: one without tables."""

    @staticmethod
    def forward(ctx: Any, inp: Tensor, flavor: int) -> Tensor:
        result = torch.ops.hpu.custom_softmax(inp, flavor)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        (result,) = ctx.saved_tensors
        return torch._softmax_backward_data(grad, result, result.dim() - 1, result.dtype), None
