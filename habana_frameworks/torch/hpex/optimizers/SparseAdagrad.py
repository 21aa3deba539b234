"""Adagrad on the rows of an embedding that a step has used: `forward(gradients, weights, moments, indices, lr, valid_count)`."""

from __future__ import annotations

from ..._hpex_C import sparse_adagrad_with_valid_count as forward

__all__ = ["forward"]
