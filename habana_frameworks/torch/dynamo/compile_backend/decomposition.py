"""Operators that a traced program does not keep whole.

The card has nearly all of PyTorch's operators whole, and computes each as PyTorch does; taking one apart would change
the last bits. In the mode `habana` only names that stand for others are replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import core_aten_decompositions

from . import config

aten = torch.ops.aten

Decompositions = dict[torch._ops.OperatorBase, Callable[..., Any]]


def _randint(high: int, size: Sequence[int], **options: Any) -> torch.Tensor:
    result: torch.Tensor = aten.randint.low(0, high, size, **options)
    return result


def get_hpu_decompositions() -> Decompositions:
    """The table for the mode that is set: `habana`, `core_aten` or `none`."""
    if config.decomposition_mode == "core_aten":
        return dict(core_aten_decompositions())
    if config.decomposition_mode == "none":
        return {}
    return {aten.randint.default: _randint}
