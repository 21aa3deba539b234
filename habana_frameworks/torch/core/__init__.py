"""Step marks and other calls of `habana_frameworks.torch.core` (usually imported as htcore)."""

from __future__ import annotations

from .. import hpu
from .step import add_step_closure, iter_mark_step, mark_step

__all__ = ["add_step_closure", "hpu", "iter_mark_step", "mark_step"]
