"""The parts of `apex` that have a counterpart in PyTorch."""

from __future__ import annotations

from . import amp, normalization, optimizers, parallel

__all__ = ["amp", "normalization", "optimizers", "parallel"]
