"""Activation checkpointing around modules that keep scales."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import checkpoint as torch_checkpoint

_depth = 0


@contextmanager
def activation_checkpointing() -> Iterator[None]:
    """Within (or, as a decorator, in the function) modules are run twice, first without gradients."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


def is_first_pass() -> bool:
    """Whether this is the pass whose results are computed again later."""
    return _depth > 0 and not torch.is_grad_enabled()


def checkpoint(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """torch.utils.checkpoint.checkpoint of a function of such modules."""
    options.setdefault("use_reentrant", True)
    return torch_checkpoint.checkpoint(activation_checkpointing()(function), *args, **options)
