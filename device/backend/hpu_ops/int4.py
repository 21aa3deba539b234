"""Weights of four bits, eight to an int32, the first in the lowest bits: (w - zero point) x scale.

Scale and zero point fit the unpacked weights, or have one row for each group of rows. A zero point may be packed like
the weights. Four-bit floats (`fake_quant_fp4`) are rounded to, not stored.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from .fp8_format import is_fp8, round_to
from .registry import Registry, like

_SHIFTS = torch.arange(0, 32, 4)


def unpacked(packed: Tensor, signed: bool) -> Tensor:
    """int32 numbers of the last dimension as eight each."""
    nibbles = (packed.to(torch.int64).unsqueeze(-1) >> _SHIFTS) & 15
    if signed:
        nibbles = torch.where(nibbles > 7, nibbles - 16, nibbles)
    return nibbles.flatten(-2)


def _over_groups(values: Tensor, like: Tensor) -> Tensor:
    """One row per group of rows, repeated over the group."""
    if values.dim() == like.dim() == 2 and values.shape[0] not in (1, like.shape[0]):
        return values.repeat_interleave(like.shape[0] // values.shape[0], 0)
    return values


def convert(signed: bool, input: Tensor, scale: Tensor, zero_point: Tensor | None, out_dtype: torch.dtype) -> Tensor:
    """convert_from_int4, convert_from_uint4."""
    wide = torch.float32 if is_fp8(out_dtype) else out_dtype
    weights = unpacked(input, signed)
    if zero_point is None:
        weights = weights.to(wide)
    elif zero_point.dtype == torch.int32:  # packed: the difference is exact
        weights = (weights - _over_groups(unpacked(zero_point, signed), weights)).to(wide)
    else:
        weights = weights.to(wide) - _over_groups(zero_point.to(wide), weights)
    result = weights * _over_groups(scale.to(wide), weights)
    return round_to(result, out_dtype) if is_fp8(out_dtype) else result


def _convert_shapes(input: Tensor, scale: Tensor, zero_point: Tensor | None, out_dtype: torch.dtype) -> Tensor:
    if input.dtype != torch.int32:
        raise RuntimeError(f"hpu::convert_from_int4: weights are packed into torch.int32, but input has {input.dtype}")
    return input.new_empty((*input.shape[:-1], input.shape[-1] * 8), dtype=out_dtype)


FP4 = {
    "fp4_e2m1": torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]),
    "fp4_e3m0": torch.tensor([0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]),
}


def fake_quant_fp4(input: Tensor, stochastic_rounding: bool, axis: int, dtype: str) -> Tensor:
    """Each slice along `axis` scaled so that its largest is the format's, rounded to the format, scaled back."""
    if dtype not in FP4:
        raise RuntimeError(f'hpu::fake_quant_fp4: dtype must be one of {", ".join(FP4)}; got "{dtype}"')
    grid, wide = FP4[dtype], input.float()
    amax = wide.abs().amax(axis, keepdim=True)
    scale = torch.where(amax > 0, amax / grid[-1], torch.ones_like(amax))
    size = wide.abs() / scale
    upper = torch.searchsorted(grid, size.contiguous()).clamp(max=len(grid) - 1)
    lower = (upper - 1).clamp(min=0)
    share = (size - grid[lower]) / (grid[upper] - grid[lower]).clamp(min=torch.finfo(torch.float32).tiny)
    up = torch.rand_like(share) < share if stochastic_rounding else _nearest(share, upper)
    return (torch.where(up, grid[upper], grid[lower]) * scale * wide.sign()).to(input.dtype)


def _nearest(share: Tensor, upper: Tensor) -> Tensor:
    # Ties go to the number whose last bit is 0: every second one.
    return (share > 0.5) | ((share == 0.5) & (upper % 2 == 0))


def register(registry: Registry) -> None:
    """convert_from_int4, convert_from_uint4, fake_quant_fp4."""
    rest = "Tensor input, Tensor scale, Tensor? zero_point, ScalarType out_dtype) -> Tensor"
    for name, signed in (("convert_from_int4", True), ("convert_from_uint4", False)):
        registry.operator(f"{name}({rest}", partial(convert, signed), _convert_shapes)
    registry.operator(
        "fake_quant_fp4(Tensor input, bool stochastic_rounding, int axis, str dtype) -> Tensor",
        fake_quant_fp4,
        like,
        random=True,
    )
