"""Attention as a module."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...kernels import FusedSDPA


class FusedAttention(nn.Module):
    """FusedSDPA with its settings kept: `forward(q, k, v, attn_mask=None, is_causal=False, softmax_mode="None")`.

    It computes in the dtype of its arguments; the library's own takes 8-bit floats within `fp8_autocast`.
    """

    def __init__(
        self, scale: float | None = None, attention_dropout: float = 0.0, enable_recompute: bool = False
    ) -> None:
        super().__init__()
        self.scale = scale
        self.attention_dropout = attention_dropout
        self.enable_recompute = enable_recompute

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        softmax_mode: str = "None",
    ) -> Tensor:
        """(batch, heads, L, V)."""
        dropout = self.attention_dropout if self.training and torch.is_grad_enabled() else 0.0
        arguments = (attn_mask, dropout, is_causal, self.scale, softmax_mode, self.enable_recompute)
        return FusedSDPA.apply(query, key, value, *arguments)
