"""softmax(x scale + mask) over the last dimension."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class ScaledMaskedSoftmax(torch.autograd.Function):
    """`ScaledMaskedSoftmax.apply(inp, mask, scale)`; the mask is added and has no gradient."""

    @staticmethod
    def forward(ctx: Any, inp: Tensor, mask: Tensor, scale: float) -> Tensor:
        result = torch.ops.hpu.scaled_masked_softmax(inp, mask, scale)
        ctx.scale = scale
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        (result,) = ctx.saved_tensors
        of_input = torch._softmax_backward_data(grad, result, result.dim() - 1, result.dtype) * ctx.scale
        return of_input, None, None
