"""Casts to and from 8-bit floats, and what computes with them.

A scale multiplies before the cast to fp8 and after the cast from it. It is a number, one number for each index of a
dimension (`scale_shape` says which), or absent. Like on the card the product is taken in the type of the wide side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .fp8_format import is_fp8, largest, require_card, round_to
from .registry import Registry, like, same

Scale = Tensor | float | Sequence[float] | None


def scale_tensor(operator: str, scale: Scale, shape: Sequence[int] | None, like: Tensor) -> Tensor | None:
    """A scale as a tensor that multiplies `like`.

    Raises:
        RuntimeError: `shape` is for another number of elements.
    """
    if scale is None:
        return None
    tensor = scale if isinstance(scale, Tensor) else torch.tensor(scale, device=like.device)
    if shape is not None and not isinstance(scale, float):
        if torch.Size(shape).numel() != tensor.numel():
            raise RuntimeError(
                f"hpu::{operator}: Number of scale elements ({tensor.numel()}) is not equal to number of scale_shape "
                f"elements ({torch.Size(shape).numel()}); scale_shape is {list(shape)}"
            )
        tensor = tensor.reshape(list(shape))
    return tensor


def _check_cast(input: Tensor, is_amax: bool, dtype: torch.dtype) -> None:
    require_card("cast_to_fp8_v2")
    if not is_fp8(dtype):
        raise RuntimeError(f"CastToFp8V2 output dtype must be float8_e4m3fn or float8_e5m2, but is {dtype}")
    if is_fp8(input.dtype):
        if is_amax:
            raise RuntimeError("CastToFp8V2 must have no amax for float8.")
        if input.dtype != dtype:
            names = [str(name).removeprefix("torch.").capitalize() for name in (input.dtype, dtype)]
            raise RuntimeError(
                f"CastToFp8V2 input and output must have the same dtype for float8, but are {names[0]} and {names[1]}"
            )
    elif input.dtype not in (torch.float32, torch.bfloat16):
        raise RuntimeError(
            "CastToFp8V2 input dtype must be one of [float, bfloat16, float8_e5m2, float8_e4m3fn]. "
            f"Got {input.dtype}; cast it to bfloat16 first"
        )


def _amax(input: Tensor, wanted: bool) -> Tensor:
    return input.abs().amax().float() if wanted else input.new_empty(0, dtype=torch.float32)


def to_fp8(
    input: Tensor,
    scale: Scale = None,
    stochastic_rounding: bool = False,
    is_amax: bool = False,
    dtype: torch.dtype | None = None,
    scale_shape: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """(input x scale as fp8, largest absolute value of the input or an empty tensor)."""
    wanted = dtype or torch.float8_e5m2
    _check_cast(input, is_amax, wanted)
    factor = scale_tensor("cast_to_fp8_v2", scale, scale_shape, input)
    if is_fp8(input.dtype) and factor is not None:
        scaled = input.float() * factor.float()
    else:
        scaled = input if factor is None else input * factor.to(input.dtype)
    return round_to(scaled, wanted, stochastic_rounding), _amax(input, is_amax)


def _to_fp8_shapes(
    input: Tensor,
    scale: Scale = None,
    stochastic_rounding: bool = False,
    is_amax: bool = False,
    dtype: torch.dtype | None = None,
    scale_shape: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    wanted = dtype or torch.float8_e5m2
    _check_cast(input, is_amax, wanted)
    scale_tensor("cast_to_fp8_v2", scale, scale_shape, input)
    amax = input.new_empty(() if is_amax else 0, dtype=torch.float32)
    return input.new_empty(input.shape, dtype=wanted), amax


def _cast_to_fp8(input: Tensor, scale: Tensor | None, stochastic_rounding: bool, out: Tensor, amax: Tensor) -> Any:
    if out.shape != input.shape:
        raise RuntimeError(
            f"hpu::cast_to_fp8: input and output must have the same shape, but have {list(input.shape)} and "
            f"{list(out.shape)}"
        )
    casted, found = to_fp8(input, scale, stochastic_rounding, amax.numel() > 0, out.dtype)
    out.copy_(casted)
    if amax.numel() > 0:
        amax.copy_(found)
    return out, amax


def _cast_to_fp8_shapes(
    input: Tensor, scale: Tensor | None, stochastic_rounding: bool, out: Tensor, amax: Tensor
) -> tuple[Tensor, Tensor]:
    _check_cast(input, amax.numel() > 0, out.dtype)
    return out, amax


def _hybrid(
    input: Tensor,
    scale_152: Tensor | None = None,
    scale_143: Tensor | None = None,
    stochastic_rounding: bool = False,
    is_amax: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    coarse, amax = to_fp8(input, scale_152, stochastic_rounding, is_amax, torch.float8_e5m2)
    fine, _ = to_fp8(input, scale_143, False, False, torch.float8_e4m3fn)
    return coarse, fine, amax


def _hybrid_shapes(
    input: Tensor,
    scale_152: Tensor | None = None,
    scale_143: Tensor | None = None,
    stochastic_rounding: bool = False,
    is_amax: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    coarse, amax = _to_fp8_shapes(input, None, False, is_amax, torch.float8_e5m2)
    return coarse, input.new_empty(input.shape, dtype=torch.float8_e4m3fn), amax


def from_fp8(input: Tensor, scale: Scale, out_dtype: torch.dtype, scale_shape: Sequence[int] | None = None) -> Tensor:
    """input x scale in a wide type."""
    wide = input.to(out_dtype)
    factor = scale_tensor("cast_from_fp8", scale, scale_shape, input)
    return wide.contiguous() if factor is None else (wide * factor.to(out_dtype)).contiguous()


def _from_fp8_shapes(
    input: Tensor, scale: Scale, out_dtype: torch.dtype, scale_shape: Sequence[int] | None = None
) -> Tensor:
    require_card("cast_from_fp8")
    if out_dtype not in (torch.float32, torch.bfloat16):
        raise RuntimeError(f"CastFromFp8 output dtype must be equal to float or bfloat16. Got {out_dtype}")
    scale_tensor("cast_from_fp8", scale, scale_shape, input)
    return input.new_empty(input.shape, dtype=out_dtype)


def _blocks(input: Tensor, block: Sequence[int]) -> list[int]:
    """Sizes of the scales of `cast_to_fp8_just_in_time`."""
    require_card("cast_to_fp8_just_in_time")
    if input.dim() < 2:
        raise RuntimeError(
            f"convert_to_fp8_just_in_time: input tensor must have at least 2 dimensions, got {input.dim()}"
        )
    height, width = block
    if height != 1 and width != 1 and height != width:
        raise RuntimeError(
            "convert_to_fp8_just_in_time: block_height and block_width must be equal or one of them must be 1, got "
            f"{height} and {width}"
        )
    rows, columns = input.shape[-2:]
    if rows % height or columns % width:
        raise RuntimeError(
            "convert_to_fp8_just_in_time: two last dimensions of input tensor must be divisible by block_height and "
            f"block_width, got {[rows, columns]} and {list(block)}"
        )
    return [*input.shape[:-2], rows // height, columns // width]


def _just_in_time(
    input: Tensor,
    block_shape: Sequence[int],
    out_dtype: torch.dtype | None = None,
    scale_dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """(fp8, scales that undo the cast): each block is scaled so that its largest value is the format's largest."""
    wanted = out_dtype or torch.float8_e4m3fn
    sizes = _blocks(input, block_shape)
    height, width = block_shape
    parts = input.float().reshape(*sizes[:-2], sizes[-2], height, sizes[-1], width)
    amax = parts.abs().amax((-3, -1))
    scale = torch.where(amax > 0, amax / largest(wanted), torch.ones_like(amax)).to(scale_dtype or input.dtype)
    casted = round_to(parts / scale.float()[..., :, None, :, None], wanted)
    return casted.reshape(input.shape), scale


def _just_in_time_shapes(
    input: Tensor,
    block_shape: Sequence[int],
    out_dtype: torch.dtype | None = None,
    scale_dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    sizes = _blocks(input, block_shape)
    casted = input.new_empty(input.shape, dtype=out_dtype or torch.float8_e4m3fn)
    return casted, input.new_empty(sizes, dtype=scale_dtype or input.dtype)


def _copy(self: Tensor, source: Tensor) -> Tensor:
    self.copy_(round_to(source.expand(self.shape), self.dtype))
    return self


def _sum(self: Tensor, dim: Any = None, keepdim: bool = False, out_dtype: torch.dtype | None = None) -> Tensor:
    total = torch.sum(self.float(), dim, keepdim)
    wanted = out_dtype or self.dtype
    return round_to(total, wanted) if is_fp8(wanted) else total.to(wanted)


def _sum_shapes(self: Tensor, dim: Any = None, keepdim: bool = False, out_dtype: torch.dtype | None = None) -> Tensor:
    shape = torch.sum(self.new_empty(self.shape, dtype=torch.float32), dim, keepdim).shape
    return self.new_empty(shape, dtype=out_dtype or self.dtype)


def _interleaved(self: Tensor) -> Tensor:
    if self.shape[0] % 4:
        raise RuntimeError(f"hpu::in_place_interleave: dimension 0 must be a multiple of 4, but is {self.shape[0]}")
    return self[: self.shape[0] // 4].repeat_interleave(4, 0)


def _interleave(self: Tensor) -> Tensor:
    return self.copy_(_interleaved(self))


SCALES = {"": "Tensor? scale=None", ".scalar": "float scale", ".scalar_list": "float[] scale"}


def register(registry: Registry) -> None:
    """The casts and what goes with them."""
    rest = "bool is_amax=False, ScalarType? dtype=None, int[]? scale_shape=None) -> (Tensor, Tensor)"
    for overload, scale in SCALES.items():
        start = f"Tensor input, {scale}, bool stochastic_rounding=False, "
        registry.operator(f"cast_to_fp8_v2{overload}({start}{rest}", to_fp8, _to_fp8_shapes, random=True)
        wanted = scale.removesuffix("=None")
        registry.operator(
            f"cast_from_fp8{overload}(Tensor input, {wanted}, ScalarType out_dtype, int[]? scale_shape=None) -> Tensor",
            from_fp8,
            _from_fp8_shapes,
        )
    registry.operator(
        "cast_to_fp8(Tensor input, Tensor? scale, bool stochastic_rounding, Tensor(a!) out, Tensor(b!) amax) "
        "-> (Tensor(a!), Tensor(b!))",
        _cast_to_fp8,
        _cast_to_fp8_shapes,
        random=True,
    )
    registry.operator(
        "cast_to_fp8_hybrid(Tensor input, Tensor? scale_152=None, Tensor? scale_143=None, "
        "bool stochastic_rounding=False, bool is_amax=False) -> (Tensor, Tensor, Tensor)",
        _hybrid,
        _hybrid_shapes,
        random=True,
    )
    registry.operator(
        "cast_to_fp8_just_in_time(Tensor input, int[] block_shape, ScalarType? out_dtype=None, "
        "ScalarType? scale_dtype=None) -> (Tensor, Tensor)",
        _just_in_time,
        _just_in_time_shapes,
    )
    registry.operator("copy_to_fp8_(Tensor(a!) self, Tensor source) -> Tensor(a!)", _copy, same)
    registry.operator(
        "sum_fp8(Tensor self, int[1]? dim=None, bool keepdim=False, ScalarType? out_dtype=None) -> Tensor",
        _sum,
        _sum_shapes,
    )
    registry.operator("in_place_interleave(Tensor self) -> Tensor", _interleaved, like)
    registry.operator("in_place_interleave_(Tensor(a!) self) -> Tensor(a!)", _interleave, same)
    registry.functionalize("in_place_interleave_", "in_place_interleave")
