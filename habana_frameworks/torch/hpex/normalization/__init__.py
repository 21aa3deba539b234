"""Gradient clipping by norm, and RMS normalization."""

from __future__ import annotations

from .FusedClipNorm import FusedClipNorm, FusedNorm
from .FusedRMSNorm import FusedRMSNorm, RmsNormBwdMode

__all__ = ["FusedClipNorm", "FusedNorm", "FusedRMSNorm", "RmsNormBwdMode"]
