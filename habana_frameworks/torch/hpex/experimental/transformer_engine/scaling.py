"""Delayed scaling: the scales of one module's tensors, on the card, without a read by the host."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from device.backend.hpu_ops.fp8_format import largest

from .recipe import DelayedScaling


class Scales:
    """For several tensors: `scale` (tensors,) and the largest values seen (steps, tensors), both float32.

    They keep their memory, so that replays of a captured graph go on from where the last one left them.
    """

    def __init__(self, formats: Sequence[torch.dtype], recipe: DelayedScaling, device: torch.device) -> None:
        count = len(formats)
        self.limits = torch.tensor([largest(dtype) for dtype in formats]).to(device)
        self.scale = torch.ones(count, device=device)
        self.history = torch.zeros(recipe.amax_history_len, count, device=device)
        self.steps = 0

    def begin_step(self, recipe: DelayedScaling, group: dist.ProcessGroup | None) -> None:
        """New scales from what earlier steps have seen, and room for what this one will."""
        if self.steps % recipe.interval == 0 and self.steps > 0:
            amax = self._amax(recipe)
            if recipe.reduce_amax and dist.is_available() and dist.is_initialized() and dist.get_world_size(group) > 1:
                dist.all_reduce(amax, op=dist.ReduceOp.MAX, group=group)
            fresh = self.limits / amax / 2.0**recipe.margin
            self.scale.copy_(torch.where((amax > 0) & torch.isfinite(fresh), fresh, self.scale))
        if self.history.shape[0] > 1:
            self.history.copy_(self.history.roll(1, 0))
        self.history[0].zero_()
        self.steps += 1

    def _amax(self, recipe: DelayedScaling) -> Tensor:
        if callable(recipe.amax_compute_algo):
            return recipe.amax_compute_algo(self.history)
        return self.history.amax(0) if recipe.amax_compute_algo == "max" else self.history[0].clone()

    def cast(self, values: Tensor, number: int, dtype: torch.dtype, stochastic: bool = False) -> tuple[Tensor, Tensor]:
        """(tensor `number` in 8 bits, the scale that undoes the cast); its largest value is remembered."""
        scale = self.scale[number]
        casted, amax = torch.ops.hpu.cast_to_fp8_v2(values, scale, stochastic, True, dtype)
        self.history[0, number] = amax
        return casted, scale.reciprocal()
