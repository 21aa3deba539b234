"""PT_HPU_REPLACE_ADAM_ADAMW: each step of Adam and AdamW is a graph of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from device import flags

from .step import _mark_step_if_lazy

_MARKED = (torch.optim.Adam, torch.optim.AdamW)


def _mark(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    if type(optimizer) in _MARKED:
        _mark_step_if_lazy()


def install() -> None:
    """Follow the variable."""
    if flags.get("PT_HPU_REPLACE_ADAM_ADAMW"):
        register_optimizer_step_pre_hook(_mark)
        register_optimizer_step_post_hook(_mark)
