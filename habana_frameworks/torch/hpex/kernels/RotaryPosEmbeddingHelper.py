"""Rotary position embedding, forward and backward one node each."""

from __future__ import annotations

from enum import Enum
from typing import Any

import torch
from torch import Tensor


class RotaryPosEmbeddingMode(Enum):
    """Which elements turn together: i with i + E/2, or neighbours."""

    BLOCKWISE = 0
    PAIRWISE = 1


def _matched(p: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All in float32 where one of them is, else in the input's dtype."""
    dtype = torch.float32 if torch.float32 in (p.dtype, cos.dtype, sin.dtype) else p.dtype
    return p.to(dtype), cos.to(dtype), sin.to(dtype)


def apply_rotary_pos_emb(p: Tensor, *args: Any) -> Tensor:
    """p cos + turned(p) sin.

    `apply_rotary_pos_emb(p, cos, sin, position_ids=None, offset=0, mode=BLOCKWISE)`: with `position_ids` cos and sin have a
    row for each position; without, `offset` numbers at the front of their last dimension are passed over.
    `apply_rotary_pos_emb(p, rope_cache)`: cos and sin together, as in ChatGLM.
    """
    if len(args) == 1:
        return RotaryPosEmbeddingHelperV3.apply(p, args[0])
    defaults = (None, 0, RotaryPosEmbeddingMode.BLOCKWISE)
    cos, sin, position_ids, offset, mode = (*args, *defaults[len(args) - 2 :])
    p, cos, sin = _matched(p, cos, sin)
    return torch.ops.hpu.rotary_pos_embedding(p, sin, cos, position_ids, offset, mode.value)


def apply_rotary_pos_emb_bwd(
    p_grad_in: Tensor,
    cos: Tensor,
    sin: Tensor,
    position_ids: Tensor | None = None,
    offset: int = 0,
    mode: RotaryPosEmbeddingMode = RotaryPosEmbeddingMode.BLOCKWISE,
) -> Tensor:
    """The gradient of p."""
    grad, cos, sin = _matched(p_grad_in, cos, sin)
    return torch.ops.hpu.rotary_pos_embedding_backward(grad, sin, cos, position_ids, offset, mode.value)


class RotaryPosEmbeddingHelperV1(torch.autograd.Function):
    """`apply(p, cos, sin, offset)`: as GPT-NeoX in transformers up to 4.27.4, and LLaMA."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, cos: Tensor, sin: Tensor, offset: int) -> Tensor:
        ctx.save_for_backward(cos, sin)
        ctx.offset, ctx.dtype = offset, p.dtype
        return apply_rotary_pos_emb(p, cos, sin, None, offset)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        cos, sin = ctx.saved_tensors
        return apply_rotary_pos_emb_bwd(grad, cos, sin, None, ctx.offset).to(ctx.dtype), None, None, None


class RotaryPosEmbeddingHelperV2(torch.autograd.Function):
    """`apply(p, cos, sin, position_ids)`: as GPT-NeoX in later releases, StableLM, LLaMA."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, cos: Tensor, sin: Tensor, position_ids: Tensor | None) -> Tensor:
        ctx.save_for_backward(cos, sin, position_ids)
        ctx.dtype = p.dtype
        return apply_rotary_pos_emb(p, cos, sin, position_ids, 0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        cos, sin, position_ids = ctx.saved_tensors
        return apply_rotary_pos_emb_bwd(grad, cos, sin, position_ids).to(ctx.dtype), None, None, None


def _taken_apart(p: Tensor, rope_cache: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(part that turns, part that does not, sin, cos) of p (sequence, batch, heads, E)."""
    length, heads, turning = p.size(0), p.size(2), rope_cache.shape[-2] * 2
    table = rope_cache[:length].reshape(length, -1, 1, turning // 2, 2)
    cos, sin = (table[..., part].repeat_interleave(2, -1).to(p.dtype) for part in (0, 1))
    return p[..., :turning].reshape(length, -1, heads, turning), p[..., turning:], sin, cos


class RotaryPosEmbeddingHelperV3(torch.autograd.Function):
    """`apply(p, rope_cache)`: as ChatGLM; the first elements of each row turn in pairs, the rest passes."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, rope_cache: Tensor) -> Tensor:
        ctx.save_for_backward(rope_cache)
        part, rest, sin, cos = _taken_apart(p, rope_cache)
        mode = RotaryPosEmbeddingMode.PAIRWISE.value
        turned = torch.ops.hpu.rotary_pos_embedding(part, sin, cos, None, 0, mode)
        return torch.cat((turned, rest), -1) if rest.shape[-1] else turned

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        (rope_cache,) = ctx.saved_tensors
        part, rest, sin, cos = _taken_apart(grad, rope_cache)
        turned = apply_rotary_pos_emb_bwd(part, cos, sin, None, 0, RotaryPosEmbeddingMode.PAIRWISE)
        return torch.cat((turned, rest), -1) if rest.shape[-1] else turned, None
