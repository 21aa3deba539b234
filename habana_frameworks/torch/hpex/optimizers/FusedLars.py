"""LARS (You et al., arXiv 1708.03888) around another optimizer: gradients scaled layer by layer, in one node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from ...core import mark_step
from .gradients import on_card


class FusedLars(Optimizer):
    """Scales each gradient by learning rate and trust ratio, then lets `optimizer` take its step.

    Args:
        optimizer: usually FusedResourceApplyMomentum, which takes gradients that have the learning rate in them.
        skip_mask: for each parameter of a group 1 where LARS applies, 0 where only the learning rate does.
        eeta: the coefficient of the trust ratio.
        eps: added to its denominator.
    """

    def __init__(self, optimizer: Optimizer, skip_mask: Sequence[int], eeta: float = 0.001, eps: float = 1e-8) -> None:
        self.optim = optimizer
        self.eeta = eeta
        self.eps = eps
        self.skip_mask = skip_mask
        defaults = {**optimizer.defaults, "skip_mask": skip_mask, "eeta": eeta, "eps": eps}
        super().__init__(optimizer.param_groups, defaults)
        for group in self.param_groups:
            if len(group["params"]) > len(skip_mask):
                raise ValueError(
                    f"skip_mask has {len(skip_mask)} entries for {len(group['params'])} parameters; give one for each"
                )
        self.state = optimizer.state

    def zero_grad(self, set_to_none: bool = False) -> None:
        """As of the optimizer inside."""
        self.optim.zero_grad(set_to_none)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """One update."""
        decays: list[Any] = []
        for group in self.optim.param_groups:
            decays.append(group.get("weight_decay", 0))
            group["weight_decay"] = 0  # it is in the scaled gradient
            chosen = [(p, int(self.skip_mask[i])) for i, p in enumerate(group["params"]) if p.grad is not None]
            if not chosen:  # as in steps that only warm up
                continue
            mark_step()
            torch.ops.hpu.optimizer_lars(
                [parameter.detach() for parameter, _ in chosen],
                [parameter.grad for parameter, _ in chosen],
                [mask for _, mask in chosen],
                float(self.eeta),
                float(decays[-1]),
                float(self.eps),
                on_card(group["lr"], chosen[0][0]),
            )
            mark_step()
        self.optim.step()
        for group, decay in zip(self.optim.param_groups, decays, strict=True):
            group["weight_decay"] = decay
