"""Iterators over a pipeline."""

from __future__ import annotations

from . import iterator_pytorch

__all__ = ["iterator_pytorch"]
