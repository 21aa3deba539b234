"""A linear layer whose products take 8-bit floats within `fp8_autocast`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from . import distributed
from .fp8 import FP8GlobalStateManager
from .scaling import Scales

INPUT, WEIGHT = 0, 1  # tensors of the forward
GRADIENT = 0  # of the backward
_WIDE = (torch.float32, torch.bfloat16)


class _Product(torch.autograd.Function):
    """x w^T + b and its gradients, each product on 8-bit floats."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, module: Linear) -> Tensor:
        formats = FP8GlobalStateManager.get_fp8_recipe().fp8_format.value
        rows = x.reshape(-1, x.shape[-1])
        ctx.shape, ctx.backward_format, ctx.module, ctx.has_bias = x.shape, formats.bwd, module, bias is not None
        ctx.dtypes = x.dtype, weight.dtype
        assert module.forward_scales is not None
        x8, undo_x = module.forward_scales.cast(rows, INPUT, formats.fwd)
        w8, undo_w = module.forward_scales.cast(weight, WEIGHT, formats.fwd)
        ctx.save_for_backward(x8, w8, undo_x, undo_w)
        offset = None if bias is None else bias.to(x.dtype)
        result = torch.ops.hpu.fp8_gemm_v2(x8, False, w8, True, None, x.dtype, undo_x, undo_w, offset, False)
        return result.reshape(*x.shape[:-1], weight.shape[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        x8, w8, undo_x, undo_w = ctx.saved_tensors
        rows = grad.reshape(-1, grad.shape[-1]).contiguous()
        scales = ctx.module.backward_scales
        g8, undo_g = scales.cast(rows, GRADIENT, ctx.backward_format)
        gemm = torch.ops.hpu.fp8_gemm_v2
        of_x = gemm(g8, False, w8, False, None, ctx.dtypes[0], undo_g, undo_w, None, False).reshape(ctx.shape)
        of_weight = gemm(g8, True, x8, False, None, ctx.dtypes[1], undo_g, undo_x, None, False)
        return of_x, of_weight, rows.sum(0) if ctx.has_bias else None, None


class Linear(nn.Module):
    """nn.Linear; within `fp8_autocast` its products take 8-bit floats with delayed scaling.

    Args:
        in_features, out_features, bias: as nn.Linear.
        params_dtype: of weight and bias.
        skip_weight_param_allocation: leave both None, to be set afterwards.
        minimize_memory, and other options of the library: accepted; they choose how it keeps weights, not results.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        params_dtype: torch.dtype = torch.float32,
        skip_weight_param_allocation: bool = False,
        minimize_memory: bool = False,
        device: torch.device | str = "cpu",
        **options: Any,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.use_bias = bias
        self.minimize_memory = minimize_memory
        self.forward_scales: Scales | None = None
        self.backward_scales: Scales | None = None
        self.weight: nn.Parameter | None
        self.bias: nn.Parameter | None
        self.register_parameter("weight", None)
        self.register_parameter("bias", None)
        if not skip_weight_param_allocation:
            self.weight = nn.Parameter(torch.empty(out_features, in_features, dtype=params_dtype, device=device))
            if bias:
                self.bias = nn.Parameter(torch.empty(out_features, dtype=params_dtype, device=device))
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """As nn.Linear."""
        if self.weight is not None:
            nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features else 0
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, inp: Tensor, is_first_microbatch: bool | None = None) -> Tensor:
        """(..., in_features) to (..., out_features)."""
        if self.weight is None:
            raise RuntimeError(
                "this Linear has no weight yet: set .weight, or leave skip_weight_param_allocation=False"
            )
        if not FP8GlobalStateManager.is_fp8_enabled():
            return nn.functional.linear(inp, self.weight, self.bias)
        x = inp if inp.dtype in _WIDE else inp.to(torch.bfloat16)
        weight = self.weight if self.weight.dtype in _WIDE else self.weight.to(torch.bfloat16)
        self._begin_step(x.device)
        return _Product.apply(x, weight, self.bias, self).to(inp.dtype)

    def _begin_step(self, device: torch.device) -> None:
        recipe, group = FP8GlobalStateManager.get_fp8_recipe(), FP8GlobalStateManager.get_fp8_group()
        formats = recipe.fp8_format.value
        if self.forward_scales is None or self.backward_scales is None:
            self.forward_scales = Scales((formats.fwd, formats.fwd), recipe, device)
            self.backward_scales = Scales((formats.bwd,), recipe, device)
        if distributed.is_first_pass():
            return  # its second pass counts
        self.forward_scales.begin_step(recipe, group)
        self.backward_scales.begin_step(recipe, group)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.use_bias}"
