"""Operators of quantized programs as the card computes them, spelled out in ordinary operators.

`quantized_decomposed` is the namespace of PyTorch's own quantization (`torch.ao.quantization`, PT2E). A number q stands
for the value (q - zero point) x scale. Integers are rounded to the nearest even one before the zero point is added;
8-bit floats only once, by the conversion at the end. PyTorch's formulae know integers only.
"""

from __future__ import annotations

import torch
from torch import Tensor

Number = float | Tensor
EIGHT_BIT_FLOATS = (torch.float8_e4m3fn, torch.float8_e5m2)


def _between(values: Tensor, low: Number, high: Number) -> Tensor:
    if isinstance(low, Tensor) and isinstance(high, Tensor):
        return torch.clamp(values, low.to(values.dtype), high.to(values.dtype))
    assert not isinstance(low, Tensor) and not isinstance(high, Tensor)
    return torch.clamp(values, low, high)


def _quantize(scaled: Tensor, zero_point: Number, low: Number, high: Number, dtype: torch.dtype) -> Tensor:
    steps = scaled if dtype in EIGHT_BIT_FLOATS else scaled.round()
    return _between(steps + zero_point, low, high).to(dtype)


def quantize_per_tensor(
    input: Tensor, scale: Number, zero_point: Number, quant_min: Number, quant_max: Number, dtype: torch.dtype
) -> Tensor:
    """One scale and one zero point for all of `input`; the result has its shape and the type `dtype`."""
    return _quantize(input / scale, zero_point, quant_min, quant_max, dtype)


def dequantize_per_tensor(
    input: Tensor,
    scale: Number,
    zero_point: Number,
    quant_min: Number,
    quant_max: Number,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """The values that `input` stands for, in `out_dtype` (float32 if there is none)."""
    wanted = out_dtype or torch.float32
    return ((input.to(torch.float32) - zero_point) * scale).to(wanted)


def _along(values: Tensor, axis: int, like: Tensor) -> Tensor:
    shape = [1] * like.dim()
    shape[axis] = -1
    return values.view(shape)


def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int, dtype: torch.dtype
) -> Tensor:
    """A scale and a zero point for each index of dimension `axis`."""
    scaled = input * _along(1.0 / scales, axis, input)
    return _quantize(scaled, _along(zero_points, axis, input), quant_min, quant_max, dtype)


def dequantize_per_channel(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """The values that `input` stands for, in `out_dtype` (float32 if there is none)."""
    values = input.to(torch.float32)
    if zero_points is not None:
        values = values - _along(zero_points, axis, input)
    return (values * _along(scales, axis, input)).to(out_dtype or torch.float32)


def scaled_mm(
    self: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """`aten::_scaled_mm`: the card multiplies by `scale_result`, where PyTorch's CPU kernel divides."""
    out = self.new_empty((self.shape[0], mat2.shape[1]), dtype=out_dtype or self.dtype)
    divisor = None if scale_result is None else scale_result.reciprocal()
    return torch.ops.aten._scaled_mm.out(
        self, mat2, scale_a, scale_b, bias, divisor, out_dtype, use_fast_accum, out=out
    )


def register() -> list[torch.library.Library]:
    """Install the operators for hpu; the libraries must be kept alive."""
    quantized = torch.library.Library("quantized_decomposed", "IMPL")
    for overload in ("", ".tensor", ".tensor2"):
        quantized.impl(f"quantize_per_tensor{overload}", quantize_per_tensor, "PrivateUse1")
        quantized.impl(f"dequantize_per_tensor{overload}", dequantize_per_tensor, "PrivateUse1")
    quantized.impl("quantize_per_channel", quantize_per_channel, "PrivateUse1")
    quantized.impl("dequantize_per_channel", dequantize_per_channel, "PrivateUse1")
    aten = torch.library.Library("aten", "IMPL")
    aten.impl("_scaled_mm", scaled_mm, "PrivateUse1")
    return [quantized, aten]
