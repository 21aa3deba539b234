"""torch.nn.functional.scaled_dot_product_attention in one node, forward and backward."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ...hpu.switches import recompute_sdp_enabled
from .grouped_queries import gqa_output_reshape, grouped, is_grouped


def _check(
    trains: bool,
    recompute: bool,
    is_causal: bool,
    attn_mask: Tensor | None,
    softmax_mode: str,
    valid_seq_len: Tensor | None,
    return_dropout_mask: bool,
    return_attn_probs: bool,
) -> None:
    if return_attn_probs and trains:
        raise ValueError("return_attn_probs is supported only for inference; call it under torch.no_grad()")
    if recompute and trains and softmax_mode == "fast" and not is_causal:
        raise ValueError(
            "softmax_mode='fast' trains with recomputation only under a triangular mask; "
            "use is_causal=True, recompute_mode=False or softmax_mode='None'"
        )
    if valid_seq_len is not None and (trains or not is_causal or attn_mask is not None):
        raise ValueError(
            "valid_seq_len is supported only for inference with is_causal=True and without attn_mask; "
            "put the padding into attn_mask instead"
        )
    if recompute and return_dropout_mask:
        raise ValueError("return_dropout_mask is not supported with recomputation; use recompute_mode=False")


class FusedSDPA(torch.autograd.Function):
    """`FusedSDPA.apply(q, k, v, ...)`: softmax(q k^T scale + mask) v.

    Args:
        q: (batch, heads, L, E), or without heads.
        k: (batch, heads, S, E); heads may be 1 or a divisor of those of q.
        v: (batch, heads, S, V).
        attn_mask: true where attention is allowed, or numbers to add; broadcasts to (batch, heads, L, S).
        dropout_p: probability of dropping an element of the softmax.
        is_causal: queries see keys up to their own position.
        scale: default 1 / sqrt(E).
        softmax_mode: "None", or "fast": probabilities in bfloat16 on the card.
        recompute_mode: the backward computes the probabilities again instead of keeping them; default
            torch.hpu.recompute_sdp_enabled().
        valid_seq_len: (batch,) lengths without padding; inference with is_causal only.
        seq_padding_type: on which side the padding is, "left" or "right".
        return_dropout_mask, return_attn_probs: also give the dropout mask (int8, 1: kept) and, outside training, the
            probabilities before dropout: (out[, probabilities][, mask]).

    Raises:
        ValueError: a combination that is not supported.
    """

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        softmax_mode: str = "None",
        recompute_mode: bool | None = None,
        valid_seq_len: Tensor | None = None,
        seq_padding_type: str = "left",
        return_dropout_mask: bool = False,
        return_attn_probs: bool = False,
    ) -> Any:
        trains = q.requires_grad or k.requires_grad or v.requires_grad
        mode, padding, causal = softmax_mode.lower(), seq_padding_type.lower(), bool(is_causal)
        recompute = recompute_sdp_enabled() if recompute_mode is None else bool(recompute_mode)
        recompute = recompute and not return_attn_probs
        _check(trains, recompute, causal, attn_mask, mode, valid_seq_len, return_dropout_mask, return_attn_probs)
        factor = 1.0 / math.sqrt(q.size(-1)) if scale is None else float(scale)
        in_groups = is_grouped(q, k)
        if in_groups:
            q, k, v, attn_mask = grouped(q, k, v, attn_mask)
        restore = gqa_output_reshape if in_groups else _as_it_is
        ctx.settings = bool(causal), float(dropout_p), factor
        ctx.grouped, ctx.recompute, ctx.softmax_mode = in_groups, recompute, mode
        if recompute:
            out, largest, inverse, seed = torch.ops.hpu.sdpa_recomp_fwd(
                q, k, v, attn_mask, dropout_p, factor, causal, trains, mode, valid_seq_len, padding
            )
            if trains:
                ctx.save_for_backward(q, k, v, attn_mask, largest, inverse, seed, out)
            return restore(out)
        out, probabilities, mask = torch.ops.hpu.sdpa_fwd(
            q, k, v, attn_mask, dropout_p, factor, causal, mode, valid_seq_len, padding
        )
        if trains:
            ctx.save_for_backward(q, k, v, probabilities, mask, out)
        results = [restore(out)]
        if return_attn_probs:
            results.append(restore(probabilities))
        if return_dropout_mask:
            results.append(restore(mask) if dropout_p > 0 else mask)
            ctx.mark_non_differentiable(results[-1])
        return results[0] if len(results) == 1 else tuple(results)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Any, ...]:  # type: ignore[override]
        causal, dropout_p, scale = ctx.settings
        q, k, v, *rest, out = ctx.saved_tensors
        if ctx.grouped:
            grad = grad.unflatten(1, q.shape[1:3])
        if ctx.recompute:
            gradients = torch.ops.hpu.sdpa_recomp_bwd(
                grad, q, k, v, *rest, causal, dropout_p, scale, ctx.softmax_mode, out
            )
        else:
            gradients = torch.ops.hpu.sdpa_bwd(grad, q, k, v, *rest, causal, dropout_p, scale, out)
        if ctx.grouped:
            gradients = [gqa_output_reshape(gradient) for gradient in gradients]
        return *gradients, None, None, None, None, None, None, None, None, None, None


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor
