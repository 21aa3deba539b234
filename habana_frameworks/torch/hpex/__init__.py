"""Gaudi's extensions to PyTorch: fused optimizers, normalizations, attention and other kernels.

Everything here equals a plain PyTorch formula, named in its docstring, and is one node for the compiler.
"""

from __future__ import annotations

from . import experimental, kernels, movingavrg, normalization, optimizers

__all__ = ["experimental", "kernels", "movingavrg", "normalization", "optimizers"]
