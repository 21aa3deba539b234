"""Matrix products of 8-bit floats with scales, bias and accumulation.

    out = (A B) x A_scale_inv x B_scale_inv + bias + D (the last where `accumulate` is set)

Factors are transposed in their last two dimensions on request, and batch dimensions are broadcast. A scale is a number,
a row or column over the result, or one number per block of the factor: those of A and B then have two dimensions, and
agree in the number of blocks along the common dimension. Sums are taken in float32, as the matrix engine does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .fp8 import Scale, scale_tensor
from .fp8_format import is_fp8, require_card, round_to
from .registry import Registry


def oriented(tensor: Tensor, transposed: bool) -> Tensor:
    """A factor as the product takes it; vectors have nothing to transpose."""
    return tensor.transpose(-2, -1) if transposed and tensor.dim() > 1 else tensor


def spread(scale: Tensor, like: Tensor) -> Tensor:
    """One number per block, repeated over the block, for the last two dimensions of `like`."""
    for dimension in (-2, -1):
        size, parts = like.shape[dimension], scale.shape[dimension]
        if parts not in (1, size):
            scale = scale.repeat_interleave(-(-size // parts), dimension).narrow(dimension, 0, size)
    return scale


def _in_blocks(left: Tensor | None, right: Tensor | None, common: int) -> bool:
    if left is None or right is None or left.dim() < 2 or right.dim() < 2:
        return False
    return 1 < left.shape[-1] <= common and left.shape[-1] == right.shape[-2]


def _check_factors(A: Tensor, trans_A: bool, B: Tensor, trans_B: bool, operator: str) -> None:
    """Whether the card has the type, and the factors fit.

    Raises:
        RuntimeError: they do not.
    """
    require_card(operator)
    left, right = oriented(A, trans_A), oriented(B, trans_B)
    common = (left.shape[-1], right.shape[-2] if right.dim() > 1 else right.shape[0])
    if common[0] != common[1]:
        raise RuntimeError(
            f"hpu::{operator}: A of shape {list(A.shape)} (trans_A={trans_A}) and B of shape {list(B.shape)} "
            f"(trans_B={trans_B}) have common dimensions of {common[0]} and {common[1]}; they must be equal"
        )


def _bounds(A: Tensor, trans_A: bool, B: Tensor, trans_B: bool, operator: str) -> Tensor:
    """An empty product, for its shape."""
    _check_factors(A, trans_A, B, trans_B, operator)
    return torch.matmul(oriented(A, trans_A).to(torch.float32), oriented(B, trans_B).to(torch.float32))


def multiply(
    A: Tensor,
    trans_A: bool,
    B: Tensor,
    trans_B: bool,
    D: Tensor | None,
    out_dtype: torch.dtype,
    A_scale_inv: Scale = None,
    B_scale_inv: Scale = None,
    bias: Tensor | None = None,
    accumulate: bool = False,
    B_scale_shape: Sequence[int] | None = None,
) -> Tensor:
    """The product in `out_dtype`."""
    _check_factors(A, trans_A, B, trans_B, "fp8_gemm_v2")
    _check_accumulation(D, accumulate)
    left, right = oriented(A, trans_A).float(), oriented(B, trans_B).float()
    first = scale_tensor("fp8_gemm_v2", A_scale_inv, None, A)
    second = scale_tensor("fp8_gemm_v2", B_scale_inv, B_scale_shape, B)
    if B_scale_shape is None and first is not None and second is not None and _in_blocks(first, second, left.shape[-1]):
        product = torch.matmul(left * spread(first.float(), left), right * spread(second.float(), right))
    else:
        product = torch.matmul(left, right)
        for scale in (first, second):
            if scale is not None:
                product = product * scale.float()
    if bias is not None:
        product = product + bias.float()
    if accumulate and D is not None:
        product = product + D.float()
    return round_to(product, out_dtype) if is_fp8(out_dtype) else product.to(out_dtype)


def _check_accumulation(D: Tensor | None, accumulate: bool) -> None:
    if accumulate and D is None:
        raise RuntimeError(
            "Accumulation tensor must be provided at index 4 for Fp8GemmV2, when accumulate is true; give D, or "
            "accumulate=False"
        )


def _shapes(
    A: Tensor,
    trans_A: bool,
    B: Tensor,
    trans_B: bool,
    D: Tensor | None,
    out_dtype: torch.dtype,
    A_scale_inv: Scale = None,
    B_scale_inv: Scale = None,
    bias: Tensor | None = None,
    accumulate: bool = False,
    B_scale_shape: Sequence[int] | None = None,
) -> Tensor:
    _check_accumulation(D, accumulate)
    scale_tensor("fp8_gemm_v2", B_scale_inv, B_scale_shape, B)
    return A.new_empty(_bounds(A, trans_A, B, trans_B, "fp8_gemm_v2").shape, dtype=out_dtype)


def _into(*arguments: Any) -> Tensor:
    *given, out = arguments
    return out.copy_(multiply(*given))


def _into_shapes(*arguments: Any) -> Tensor:
    A, trans_A, B, trans_B = arguments[:4]
    _bounds(A, trans_A, B, trans_B, "fp8_gemm")
    return arguments[-1]


def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    out_dtype: torch.dtype | None = None,
    scale_input: Tensor | float | None = None,
    scale_weight: Tensor | float | None = None,
) -> Tensor:
    """conv2d of 8-bit floats; scales are numbers that multiply the result before the bias."""
    result = torch.nn.functional.conv2d(input.float(), weight.float(), None, stride, padding, dilation, groups)
    for scale in (scale_input, scale_weight):
        if scale is not None:
            result = result * scale
    if bias is not None:
        result = result + bias.float().view(1, -1, 1, 1)
    return result.to(out_dtype or torch.bfloat16)


def _convolution_shapes(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *rest: Any, **options: Any
) -> Tensor:
    require_card("conv2d_fp8")
    names = ("stride", "padding", "dilation", "groups", "out_dtype", "scale_input", "scale_weight")
    given = dict(zip(names, rest, strict=False)) | options
    image, kernel = (tensor.new_empty(tensor.shape, dtype=torch.float32) for tensor in (input, weight))
    settings: dict[str, Any] = {name: given[name] for name in names[:4] if name in given}
    shape = torch.nn.functional.conv2d(image, kernel, None, **settings).shape
    return input.new_empty(shape, dtype=given.get("out_dtype") or torch.bfloat16)


def _masked(a: Tensor, b: Tensor, mask_a: Tensor, mask_b: Tensor, trans_a: bool, trans_b: bool) -> Tensor:
    """a b + mask_a mask_b, the masks broadcast over dimension 1."""
    product = torch.matmul(oriented(a, trans_a).float(), oriented(b, trans_b).float())
    masks = torch.matmul(oriented(mask_a, trans_a).float(), oriented(mask_b, trans_b).float())
    return (product + masks).to(a.dtype)


def _masked_shapes(a: Tensor, b: Tensor, mask_a: Tensor, mask_b: Tensor, trans_a: bool, trans_b: bool) -> Tensor:
    return a.new_empty(torch.matmul(oriented(a, trans_a), oriented(b, trans_b)).shape)


def register(registry: Registry) -> None:
    """fp8_gemm, fp8_gemm_v2, conv2d_fp8, masked_batch_gemm."""
    scales = {
        "": "Tensor? A_scale_inv=None, Tensor? B_scale_inv=None",
        ".scalar": "float A_scale_inv, float B_scale_inv",
        ".scalar_list": "float[] A_scale_inv, float[] B_scale_inv",
    }
    for overload, scale in scales.items():
        registry.operator(
            f"fp8_gemm_v2{overload}(Tensor A, bool trans_A, Tensor B, bool trans_B, Tensor? D, ScalarType out_dtype, "
            f"{scale}, Tensor? bias=None, bool accumulate=False, int[]? B_scale_shape=None) -> Tensor",
            multiply,
            _shapes,
        )
    registry.operator(
        "fp8_gemm(Tensor A, bool trans_A, Tensor B, bool trans_B, Tensor D, ScalarType out_dtype, "
        "Tensor? A_scale_inv, Tensor? B_scale_inv, Tensor? bias, bool accumulate, Tensor(a!) out) -> Tensor(a!)",
        _into,
        _into_shapes,
    )
    for overload, scale in {
        "": "Tensor? scale_input=None, Tensor? scale_weight=None",
        ".scalar": "float scale_input=1.0, float scale_weight=1.0",
    }.items():
        registry.operator(
            f"conv2d_fp8{overload}(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, "
            f"int[2] dilation=1, int groups=1, ScalarType? out_dtype=None, {scale}) -> Tensor",
            _convolution,
            _convolution_shapes,
        )
    registry.operator(
        "masked_batch_gemm(Tensor a, Tensor b, Tensor mask_a, Tensor mask_b, bool trans_a, bool trans_b) -> Tensor",
        _masked,
        _masked_shapes,
    )
