"""Attention on 8-bit floats in one node."""

from __future__ import annotations

import math
import os
from typing import Any

import torch
from torch import Tensor

from ...hpu.switches import recompute_sdp_enabled
from .grouped_queries import gqa_output_reshape, grouped, is_grouped

Scale = Tensor | float | None
GRADIENTS = 16  # arguments of the forward that have none


def fp8_sdpa_fwd_wrapper(
    ctx: Any,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    softmax_mode: str = "None",
    d_scale_q: Scale = None,
    d_scale_k: Scale = None,
    d_scale_v: Scale = None,
    q_scale_s: Scale = None,
    q_scale_o: Scale = None,
    d_scale_s: Scale = None,
    is_amax_s: bool = False,
    is_amax_o: bool = False,
    valid_seq_len: Tensor | None = None,
    seq_padding_type: str = "left",
    recompute: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The forward of an autograd function with context `ctx`: (output, amax_s, amax_o).

    Raises:
        ValueError: a combination that is not supported.
    """
    trains = q.requires_grad or k.requires_grad or v.requires_grad
    if trains and not is_causal:
        raise ValueError("attention on 8-bit floats trains only under a triangular mask; use is_causal=True")
    if valid_seq_len is not None and (trains or not is_causal or attn_mask is not None):
        raise ValueError(
            "valid_seq_len is supported only for inference with is_causal=True and without attn_mask; "
            "put the padding into attn_mask instead"
        )
    mode, padding = softmax_mode.lower(), seq_padding_type.lower()
    factor = 1.0 / math.sqrt(q.size(-1)) if scale is None else float(scale)
    again = recompute_sdp_enabled() if recompute is None else recompute
    in_groups = is_grouped(q, k)
    if in_groups:
        q, k, v, attn_mask = grouped(q, k, v, attn_mask)
    scales = d_scale_q, d_scale_k, d_scale_v, q_scale_s, q_scale_o, d_scale_s
    common = q, k, v, attn_mask, dropout_p, factor, is_causal
    ctx.settings = is_causal, dropout_p, factor
    ctx.grouped, ctx.recompute, ctx.softmax_mode = in_groups, again, mode
    if again:
        numbers = any(isinstance(item, float) for item in scales)
        typed = tuple(item or 0.0 for item in scales) if numbers else scales  # 0.0 stands for none among numbers
        out, largest, inverse, seed, amax_s, amax_o = torch.ops.hpu.fp8_sdpa_recomp_fwd(
            *common, trains, mode, *typed, is_amax_s, is_amax_o, valid_seq_len, padding
        )
        if trains:
            ctx.save_for_backward(q, k, v, attn_mask, largest, inverse, seed, out)
        return gqa_output_reshape(out) if in_groups else out, amax_s, amax_o
    out, probabilities, mask, amax_s = torch.ops.hpu.fp8_sdpa_fwd(
        *common, mode, *scales, is_amax_s, valid_seq_len, padding
    )
    if trains:
        ctx.save_for_backward(q, k, v, probabilities, mask, out)
    return gqa_output_reshape(out) if in_groups else out, amax_s, None


def fp8_sdpa_bwd_wrapper(ctx: Any, dout: Tensor, *args: Any) -> tuple[Any, ...]:
    """The backward that goes with it: gradients in the types of q, k and v, by the plain operators."""
    causal, dropout_p, scale = ctx.settings
    q, k, v, *rest, out = ctx.saved_tensors
    if ctx.grouped:
        dout = dout.unflatten(1, q.shape[1:3])
    if ctx.recompute:
        gradients = torch.ops.hpu.sdpa_recomp_bwd(dout, q, k, v, *rest, causal, dropout_p, scale, ctx.softmax_mode, out)
    else:
        gradients = torch.ops.hpu.sdpa_bwd(dout, q, k, v, *rest, causal, dropout_p, scale, out)
    if ctx.grouped:
        gradients = [gqa_output_reshape(gradient) for gradient in gradients]
    return *gradients, *[None] * GRADIENTS


class Fp8FusedSDPA(torch.autograd.Function):
    """`fp8_fused_sdpa` as an autograd function."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:  # type: ignore[override]
        out, amax_s, amax_o = fp8_sdpa_fwd_wrapper(ctx, *arguments)
        ctx.mark_non_differentiable(*(amax for amax in (amax_s, amax_o) if amax is not None))
        return out, amax_s, amax_o

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Any, ...]:  # type: ignore[override]
        return fp8_sdpa_bwd_wrapper(ctx, grad)


def fp8_fused_sdpa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    softmax_mode: str = "None",
    d_scale_q: Scale = None,
    d_scale_k: Scale = None,
    d_scale_v: Scale = None,
    q_scale_s: Scale = None,
    q_scale_o: Scale = None,
    d_scale_s: Scale = None,
    is_amax_s: bool = False,
    is_amax_o: bool = False,
    valid_seq_len: Tensor | None = None,
    seq_padding_type: str = "left",
    recompute: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Attention on 8-bit floats; shapes and masks as FusedSDPA.

    `d_scale_*` undo the scaling of q, k, v and of the probabilities, `q_scale_*` scale probabilities and output before
    their cast; tensors of one element, or numbers. Without `q_scale_o` the output is bfloat16. With `is_amax_*` the
    largest absolute probability and output come back, which is how scales are found.

    Returns:
        (output, amax_s, amax_o); amax_o is None without recomputation.
    """
    arguments = (
        q, k, v, attn_mask, dropout_p, is_causal, scale, softmax_mode, d_scale_q, d_scale_k, d_scale_v, q_scale_s,
        q_scale_o, d_scale_s, is_amax_s, is_amax_o, valid_seq_len, seq_padding_type, recompute,
    )  # fmt: skip
    if os.environ.get("PT_HPU_DUMP_FUSED_SDPA_API_PARAMS", "0") == "1":
        names = fp8_fused_sdpa.__annotations__
        for name, value in zip(names, arguments, strict=False):
            print(f"{name} : {list(value.shape) if isinstance(value, Tensor) and value.dim() > 1 else value}")
    return Fp8FusedSDPA.apply(*arguments)
