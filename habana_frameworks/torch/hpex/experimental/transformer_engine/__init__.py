"""Modules that compute in 8-bit floats, as far as the closed library behind this name is publicly documented.

docs.habana.ai, "FP8 Training with Intel Gaudi Transformer Engine": `Linear`, `fp8_autocast`, `recipe.DelayedScaling`,
`recipe.Format`, `distributed.activation_checkpointing`, `checkpoint`, `FusedAttention`.
"""

from __future__ import annotations

from typing import Any

from . import distributed, fp8, recipe
from .attention import FusedAttention
from .distributed import activation_checkpointing, checkpoint
from .fp8 import fp8_autocast, is_fp8_available
from .linear import Linear

_ABSENT = {
    "DotProductAttention": "FusedAttention",
    "LayerNorm": "torch.nn.LayerNorm",
    "LayerNormLinear": "torch.nn.LayerNorm and Linear",
    "LayerNormMLP": "torch.nn.LayerNorm and two Linear",
    "TransformerLayer": "FusedAttention and Linear",
}


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        raise NotImplementedError(f"transformer_engine.{name} is not documented for Gaudi; use {_ABSENT[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "FusedAttention",
    "Linear",
    "activation_checkpointing",
    "checkpoint",
    "distributed",
    "fp8",
    "fp8_autocast",
    "is_fp8_available",
    "recipe",
]
