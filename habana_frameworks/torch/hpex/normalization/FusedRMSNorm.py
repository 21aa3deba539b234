"""RMS normalization: x gamma / sqrt(mean(x^2) + eps) over the last dimension, forward and backward one node each."""

from __future__ import annotations

from enum import Enum
from typing import Any

import torch
from torch import Tensor


class RmsNormBwdMode(Enum):
    """Which of the card's kernels computes the backward; the result is the same."""

    DEFAULT = 0
    STATIC_CASE_WIDTH_PARTITIONING = 1


class FusedRMSNorm(torch.autograd.Function):
    """`FusedRMSNorm.apply(x, gamma, eps)`.

    float32 where x and gamma have different dtypes. `use_stages` and `bwd_mode` (a number of RmsNormBwdMode) choose the
    kernel of the backward, `fast_math` shorter formulae on the card.
    """

    @staticmethod
    def forward(
        ctx: Any,
        data_in: Tensor,
        gamma: Tensor,
        eps: float,
        use_stages: bool = True,
        bwd_mode: int = 0,
        fast_math: bool = False,
    ) -> Tensor:
        operator = torch.ops.hpu.rms_norm_fast if fast_math else torch.ops.hpu.rms_norm
        result, inverse = operator(data_in, gamma, eps)
        ctx.save_for_backward(data_in, gamma, inverse)
        ctx.settings = use_stages, int(bwd_mode.value if isinstance(bwd_mode, RmsNormBwdMode) else bwd_mode)
        ctx.fast_math = fast_math
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        operator = torch.ops.hpu.rms_norm_fast_backward if ctx.fast_math else torch.ops.hpu.rms_norm_backward
        of_input, of_gamma = operator(grad, *ctx.saved_tensors, *ctx.settings)
        return of_input, of_gamma, None, None, None, None
