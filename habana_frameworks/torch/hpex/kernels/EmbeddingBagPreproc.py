"""`forward(indices, offsets)`: what the backward of an embedding bag goes by."""

from __future__ import annotations

from ..._hpex_C import embedding_bag_preproc as forward

__all__ = ["forward"]
