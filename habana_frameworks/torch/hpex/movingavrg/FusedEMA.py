"""Exponential moving average of a model, all tensors of its state in one node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import nn

from ...core import mark_step
from ..optimizers.gradients import on_card


def _inner(model: nn.Module) -> nn.Module:
    wrapped = isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel)
    return model.module if wrapped else model  # type: ignore[return-value]


class FusedEMA:
    """`ema` follows a model: e <- e d + (1 - d) m, with d = decay (1 - exp(-updates / 2000)).

    Args:
        model: the model to follow, perhaps wrapped for data parallelism.
        decay: what d comes to after many updates.
        updates: number of updates so far.
    """

    def __init__(self, model: nn.Module, decay: float = 0.9999, updates: int = 0) -> None:
        if not decay >= 0.0:
            raise ValueError(f"Invalid decay value: {decay}; give a number of at least 0")
        self.ema = deepcopy(_inner(model)).eval()
        for parameter in self.ema.parameters():
            parameter.requires_grad_(False)
        self.decay = lambda count: decay * (1 - math.exp(-count / 2000))
        self.updates = updates

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Let `ema` follow; in lazy mode the graph ends before and behind it. Integers in the state stay."""
        mark_step()
        self.updates += 1
        state, own = _inner(model).state_dict(), self.ema.state_dict()
        pairs = [(state[name], value) for name, value in own.items() if value.is_floating_point()]
        if pairs:
            decay = on_card(self.decay(self.updates), pairs[0][1])
            torch.ops.hpu.optimizer_ema([model for model, _ in pairs], [average for _, average in pairs], decay)
        mark_step()

    def update_attr(
        self, model: nn.Module, include: Sequence[str] = (), exclude: Sequence[str] = ("process_group", "reducer")
    ) -> None:
        """Copy the model's public attributes: those of `include` (default all) but for those of `exclude`."""
        for name, value in vars(model).items():
            if name.startswith("_") or name in exclude or (include and name not in include):
                continue
            setattr(self.ema, name, value)
