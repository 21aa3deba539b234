"""Moving averages of a model's weights."""

from __future__ import annotations

from .FusedEMA import FusedEMA

__all__ = ["FusedEMA"]
