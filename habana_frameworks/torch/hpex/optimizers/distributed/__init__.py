"""Optimizers in the form that torch.distributed.optim takes: gradients are given to `step`."""

from __future__ import annotations

from .FusedAdamW import FusedAdamW

__all__ = ["FusedAdamW"]
