"""Softmax in the forms that the card has as one kernel. Sums are taken in float32.

custom_softmax                     over the last dimension; flavor 1 is a shorter exponential (its result in bfloat16)
scaled_masked_softmax              softmax(x scale + mask)
scaled_triangular_softmax          softmax(x scale) of the lower triangle, x (batch, n, n); `retain` also gives
                                   1 / sum of exponentials and the largest value of each row, which a second call takes
scaled_masked_triangular_softmax   of groups of matrices, each with columns start <= column < end; zeros elsewhere
ragged_softmax                     of the first `valid_count` elements of each row; zeros behind them
softmax_fp8                        softmax(x inv_attn_heads input_scale + fused_add) output_scale
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .fp8_format import is_fp8, require_card, round_to
from .registry import Registry, like


def _of_allowed(scores: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """(softmax, 1 / sum, largest) over the last dimension; rows with nothing allowed are zero."""
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    top = scores.amax(-1, keepdim=True)
    top = top.masked_fill(top == -math.inf, 0.0)
    exponentials = (scores - top).exp()
    total = exponentials.sum(-1, keepdim=True)
    inverse = torch.where(total > 0, total.reciprocal(), torch.zeros_like(total))
    return exponentials * inverse, inverse, top


def custom(input: Tensor, flavor: int) -> Tensor:
    """custom_softmax."""
    result = torch.softmax(input.float(), -1)
    return (result.bfloat16() if flavor else result).to(input.dtype)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.dtype = inputs[0].dtype
    ctx.save_for_backward(output)


def _custom_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    (result,) = ctx.saved_tensors
    return torch._softmax_backward_data(grad, result, result.dim() - 1, ctx.dtype), None


def masked(input: Tensor, mask: Tensor, scale: float) -> Tensor:
    """scaled_masked_softmax."""
    return torch.softmax(input.float() * scale + mask.float(), -1).to(input.dtype)


def _save_masked(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.scale, ctx.dtype = inputs[2], inputs[0].dtype
    ctx.save_for_backward(output)


def _masked_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    (result,) = ctx.saved_tensors
    return torch._softmax_backward_data(grad, result, result.dim() - 1, ctx.dtype) * ctx.scale, None, None


def _lower(rows: int, columns: int) -> Tensor:
    return torch.ones(rows, columns, dtype=torch.bool).tril()


def _check_triangular(self: Tensor, first: Tensor | None = None, second: Tensor | None = None) -> None:
    if self.dim() != 3:
        raise RuntimeError(f"hpu::scaled_triangular_softmax: Self tensor must be 3D. It has shape {list(self.shape)}")
    if (first is None) != (second is None):
        raise RuntimeError(
            "hpu::scaled_triangular_softmax: Inputs max and exp_sum_recpr must be both given or Null; give both, or none"
        )
    row = [*self.shape[:-1], 1]
    for tensor in (first, second):
        if tensor is not None and list(tensor.shape) != row:
            raise RuntimeError(
                f"hpu::scaled_triangular_softmax: exp_sum_recpr and max inputs must have shape {row}; "
                f"one has {list(tensor.shape)}"
            )


def triangular(
    self: Tensor, inv_scale_attn: float, exp_sum_recpr: Tensor | None = None, max: Tensor | None = None
) -> Tensor:
    """scaled_triangular_softmax."""
    _check_triangular(self, exp_sum_recpr, max)
    allowed = _lower(*self.shape[-2:])
    scores = self.float() * inv_scale_attn
    if exp_sum_recpr is None or max is None:
        return _of_allowed(scores, allowed)[0].to(self.dtype)
    exponentials = (scores - max.float()).exp().masked_fill(~allowed, 0.0)
    return (exponentials * exp_sum_recpr.float()).to(self.dtype)


def _triangular_shapes(
    self: Tensor, inv_scale_attn: float, exp_sum_recpr: Tensor | None = None, max: Tensor | None = None
) -> Tensor:
    _check_triangular(self, exp_sum_recpr, max)
    return self.new_empty(self.shape)


def triangular_retain(self: Tensor, inv_scale_attn: float) -> tuple[Tensor, Tensor, Tensor]:
    """scaled_triangular_softmax_retain."""
    _check_triangular(self)
    scores = (self.float() * inv_scale_attn).masked_fill(~_lower(*self.shape[-2:]), -math.inf)
    top = scores.amax(-1, keepdim=True).to(self.dtype)  # what is kept is what is used, here and in the second call
    exponentials = (scores - top.float()).exp()
    inverse = exponentials.sum(-1, keepdim=True).reciprocal()
    return (exponentials * inverse).to(self.dtype), inverse, top


def _retain_shapes(self: Tensor, inv_scale_attn: float) -> tuple[Tensor, Tensor, Tensor]:
    _check_triangular(self)
    row = (*self.shape[:-1], 1)
    return self.new_empty(self.shape), self.new_empty(row, dtype=torch.float32), self.new_empty(row)


def _check_grouped(self: Tensor, grouped_batch_size: int, out_dtype: torch.dtype | None) -> torch.dtype:
    where = "hpu::scaled_masked_triangular_softmax"
    wanted = out_dtype or self.dtype
    if self.dtype != wanted and not (self.dtype == torch.bfloat16 and is_fp8(wanted)):
        raise RuntimeError(
            f"{where}: Input and output dtypes must be equal or input must be bfloat16 and output must be fp8. "
            f"Got: input = {self.dtype}, output = {wanted}"
        )
    if self.dim() != 3:
        raise RuntimeError(f"{where}: Input must be a 3D tensor. Got shape {list(self.shape)}")
    if self.shape[1] not in (1, self.shape[2]):
        raise RuntimeError(f"{where}: Dim1 must equal (dim2 or 1). Got shape {list(self.shape)}")
    if grouped_batch_size <= 0:
        raise RuntimeError(f"{where}: grouped_batch_size must be larger than 0. Got {grouped_batch_size}")
    if self.shape[0] % grouped_batch_size:
        raise RuntimeError(
            f"{where}: dim0 must be a multiple of grouped_batch_size. Got {self.shape[0]} and {grouped_batch_size}"
        )
    return wanted


def grouped(
    self: Tensor,
    start_end: Tensor,
    inv_scale_attn: float,
    grouped_batch_size: int,
    use_max: bool,
    mode: int,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """scaled_masked_triangular_softmax. `use_max` and `mode` choose the exponential, which is exact here."""
    wanted = _check_grouped(self, grouped_batch_size, out_dtype)
    limits = start_end.reshape(-1, 2).repeat_interleave(grouped_batch_size, 0)
    columns = torch.arange(self.shape[2])
    allowed = ((columns >= limits[:, :1]) & (columns < limits[:, 1:]))[:, None, :]
    if self.shape[1] > 1:
        allowed = allowed & _lower(*self.shape[-2:])
    result = _of_allowed(self.float() * inv_scale_attn, allowed)[0]
    return round_to(result.to(self.dtype), wanted) if is_fp8(wanted) else result.to(wanted)


def _grouped_shapes(
    self: Tensor,
    start_end: Tensor,
    inv_scale_attn: float,
    grouped_batch_size: int,
    use_max: bool,
    mode: int,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    return self.new_empty(self.shape, dtype=_check_grouped(self, grouped_batch_size, out_dtype))


def ragged(self: Tensor, dim: int, half_to_float: bool, valid_count: Tensor) -> Tensor:
    """ragged_softmax; row i of all rows along `dim` has `valid_count[i]` elements."""
    moved = self.movedim(dim, -1).float()
    counts = valid_count.reshape(*moved.shape[:-1], 1)
    result = _of_allowed(moved, torch.arange(moved.shape[-1]) < counts)[0].movedim(-1, dim)
    return result.to(torch.float32 if half_to_float else self.dtype)


def _ragged_shapes(self: Tensor, dim: int, half_to_float: bool, valid_count: Tensor) -> Tensor:
    return self.new_empty(self.shape, dtype=torch.float32 if half_to_float else self.dtype)


def _check_fp8(input: Tensor, input_scale: Any, output_scale: Any, fused_add: Tensor | None) -> torch.dtype:
    require_card("softmax_fp8")
    if input.dtype not in (torch.bfloat16, torch.float8_e4m3fn):
        raise RuntimeError(
            f"hpu::softmax_fp8: Input tensor must be of torch.bfloat16 or torch.float8_e4m3fn dtype. Got {input.dtype}"
        )
    if (input_scale is None) != (output_scale is None):
        raise RuntimeError("hpu::softmax_fp8: Output and input scales must be both given or None; give both, or none")
    if input.dtype == torch.float8_e4m3fn and input_scale is None:
        raise RuntimeError(
            "hpu::softmax_fp8: If Input is of torch.float8_e4m3fn dtype then input scale must be given; give one"
        )
    if fused_add is not None:
        if input_scale is None:
            raise RuntimeError(
                "hpu::softmax_fp8: FusedAdd available only for Float8 output, but input scale is not given."
            )
        if fused_add.dim() != input.dim():
            raise RuntimeError(
                "hpu::softmax_fp8: FusedAdd tensor must have the same rank as the input tensor; they have "
                f"{fused_add.dim()} and {input.dim()} dimensions"
            )
    return torch.bfloat16 if input_scale is None else torch.float8_e4m3fn


def fp8(
    input: Tensor,
    dim: int,
    input_scale: Tensor | float | None = None,
    output_scale: Tensor | float | None = None,
    inv_attn_heads: Tensor | float | None = None,
    fused_add: Tensor | None = None,
) -> Tensor:
    """softmax_fp8: bfloat16 without scales, float8_e4m3fn with them."""
    wanted = _check_fp8(input, input_scale, output_scale, fused_add)
    scores = input.float()
    for factor in (inv_attn_heads, input_scale):
        scores = scores if factor is None else scores * factor
    if fused_add is not None:
        scores = scores + fused_add.float()
    result = torch.softmax(scores, dim)
    return result.to(wanted) if output_scale is None else round_to(result.bfloat16() * output_scale, wanted)


def _fp8_shapes(
    input: Tensor,
    dim: int,
    input_scale: Any = None,
    output_scale: Any = None,
    inv_attn_heads: Any = None,
    fused_add: Tensor | None = None,
) -> Tensor:
    return input.new_empty(input.shape, dtype=_check_fp8(input, input_scale, output_scale, fused_add))


def register(registry: Registry) -> None:
    """The forms above."""
    name = registry.operator("custom_softmax(Tensor input, int flavor) -> Tensor", custom, like)
    registry.gradient(name, _save, _custom_backward)
    name = registry.operator("scaled_masked_softmax(Tensor input, Tensor mask, float scale) -> Tensor", masked, like)
    registry.gradient(name, _save_masked, _masked_backward)
    registry.operator(
        "scaled_triangular_softmax(Tensor self, float inv_scale_attn, Tensor? exp_sum_recpr=None, Tensor? max=None) "
        "-> Tensor",
        triangular,
        _triangular_shapes,
    )
    registry.operator(
        "scaled_triangular_softmax_retain(Tensor self, float inv_scale_attn) -> (Tensor, Tensor, Tensor)",
        triangular_retain,
        _retain_shapes,
    )
    registry.operator(
        "scaled_masked_triangular_softmax(Tensor self, Tensor start_end, float inv_scale_attn, "
        "int grouped_batch_size, bool use_max, int mode, ScalarType? out_dtype=None) -> Tensor",
        grouped,
        _grouped_shapes,
    )
    registry.operator(
        "ragged_softmax(Tensor self, int dim, bool half_to_float, Tensor valid_count) -> Tensor",
        ragged,
        _ragged_shapes,
    )
    add = "Tensor? fused_add=None) -> Tensor"
    for overload, scales in {
        "": "Tensor? input_scale=None, Tensor? output_scale=None, Tensor? inv_attn_heads=None",
        ".Scalar_scales": "float input_scale, float output_scale, Tensor? inv_attn_heads=None",
        ".Scalar": "float input_scale, float output_scale, float inv_attn_heads",
    }.items():
        registry.operator(f"softmax_fp8{overload}(Tensor input, int dim, {scales}, {add}", fp8, _fp8_shapes)
