"""Embedding bags: `forward(weight, indices, offsets, valid_count, kernel_mode)`, and `backward`, which fills its first
argument.
"""

from __future__ import annotations

from ..._hpex_C import embedding_bag_sum_bwd as backward
from ..._hpex_C import embedding_bag_sum_fwd as forward

__all__ = ["backward", "forward"]
