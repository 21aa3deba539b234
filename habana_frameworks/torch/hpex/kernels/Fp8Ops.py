"""The functions on 8-bit floats that older releases had here; newer ones have them as `torch.ops.hpu`."""

from __future__ import annotations

import torch

cast_to_fp8 = torch.ops.hpu.cast_to_fp8
cast_to_fp8_v2 = torch.ops.hpu.cast_to_fp8_v2
cast_to_fp8_hybrid = torch.ops.hpu.cast_to_fp8_hybrid
cast_from_fp8 = torch.ops.hpu.cast_from_fp8
fp8_gemm = torch.ops.hpu.fp8_gemm
fp8_gemm_v2 = torch.ops.hpu.fp8_gemm_v2
conv2d_fp8 = torch.ops.hpu.conv2d_fp8

__all__ = [
    "cast_from_fp8",
    "cast_to_fp8",
    "cast_to_fp8_hybrid",
    "cast_to_fp8_v2",
    "conv2d_fp8",
    "fp8_gemm",
    "fp8_gemm_v2",
]
