"""Kernels that replace several of PyTorch's operators: attention, rotary embedding, losses, softmax, embedding bags."""

from __future__ import annotations

from . import EmbeddingBag, EmbeddingBagPreproc, Fp8Ops, RandomSeed, Softmax, fbgemm
from .CTCLoss import CTCLoss
from .CustomNms import CustomNms
from .CustomRoiAlign import CustomRoiAlign, _RoiAlign
from .CustomSoftmax import CustomSoftmax
from .Fp8FusedSDPA import fp8_fused_sdpa, fp8_sdpa_bwd_wrapper, fp8_sdpa_fwd_wrapper
from .FusedSDPA import FusedSDPA
from .grouped_queries import gqa_output_reshape
from .PySDPA import PySDPA, PySDPAHinted
from .RotaryPosEmbeddingHelper import (
    RotaryPosEmbeddingHelperV1,
    RotaryPosEmbeddingHelperV2,
    RotaryPosEmbeddingHelperV3,
    RotaryPosEmbeddingMode,
    apply_rotary_pos_emb,
)
from .ScaledMaskedSoftmax import ScaledMaskedSoftmax

__all__ = [
    "CTCLoss",
    "CustomNms",
    "CustomRoiAlign",
    "CustomSoftmax",
    "EmbeddingBag",
    "EmbeddingBagPreproc",
    "Fp8Ops",
    "FusedSDPA",
    "PySDPA",
    "PySDPAHinted",
    "RandomSeed",
    "RotaryPosEmbeddingHelperV1",
    "RotaryPosEmbeddingHelperV2",
    "RotaryPosEmbeddingHelperV3",
    "RotaryPosEmbeddingMode",
    "ScaledMaskedSoftmax",
    "Softmax",
    "_RoiAlign",
    "apply_rotary_pos_emb",
    "fbgemm",
    "fp8_fused_sdpa",
    "fp8_sdpa_bwd_wrapper",
    "fp8_sdpa_fwd_wrapper",
    "gqa_output_reshape",
]
