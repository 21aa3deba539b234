"""`apex.normalization`: PyTorch's own layers, which are one kernel on the card."""

from __future__ import annotations

from torch.nn import LayerNorm, RMSNorm

FusedLayerNorm = MixedFusedLayerNorm = LayerNorm
FusedRMSNorm = MixedFusedRMSNorm = RMSNorm

__all__ = ["FusedLayerNorm", "FusedRMSNorm", "MixedFusedLayerNorm", "MixedFusedRMSNorm"]
