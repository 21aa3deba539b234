"""The functions on 8-bit floats that older releases had here; newer ones have them as `torch.ops.hpu`."""

from __future__ import annotations

from typing import Any

import torch

cast_to_fp8 = torch.ops.hpu.cast_to_fp8
cast_to_fp8_v2 = torch.ops.hpu.cast_to_fp8_v2
cast_to_fp8_hybrid = torch.ops.hpu.cast_to_fp8_hybrid
cast_from_fp8 = torch.ops.hpu.cast_from_fp8
fp8_gemm = torch.ops.hpu.fp8_gemm
fp8_gemm_v2 = torch.ops.hpu.fp8_gemm_v2
conv2d_fp8 = torch.ops.hpu.conv2d_fp8

_GONE = {
    "cast_to_fp8_te": "cast_to_fp8_v2",
    "fp8_transpose": "Tensor.transpose",
    "fp8_gelu": "torch.nn.functional.gelu and cast_to_fp8_v2",
    "fp8_cast_transpose_fused": "cast_to_fp8_v2 and Tensor.transpose",
    "fp8_cast_transpose_bgrad_fused": "cast_to_fp8_v2, Tensor.transpose and Tensor.sum",
    "fp8_cast_transpose_bgrad_dgelu_fused": "cast_to_fp8_v2, Tensor.transpose and gelu's backward",
    "layernorm_fwd_fp8": "torch.nn.functional.layer_norm and cast_to_fp8_v2",
}


def __getattr__(name: str) -> Any:
    if name in _GONE:

        def gone(*arguments: Any, **options: Any) -> Any:
            raise NotImplementedError(f"Fp8Ops.{name} left the Gaudi software with 1.19; use {_GONE[name]}")

        return gone
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "cast_from_fp8",
    "cast_to_fp8",
    "cast_to_fp8_hybrid",
    "cast_to_fp8_v2",
    "conv2d_fp8",
    "fp8_gemm",
    "fp8_gemm_v2",
]
