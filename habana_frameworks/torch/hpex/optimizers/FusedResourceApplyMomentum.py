"""Momentum on gradients that have the learning rate in them already, as FusedLars makes them, in one node."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim import Optimizer

from ...core import mark_step
from .gradients import check_at_least, parameters_with_gradients


class FusedResourceApplyMomentum(Optimizer):
    """b <- momentum b - g; p <- p + b, with buffers of zero at first.

    Learning rate and weight decay are kept in the groups for FusedLars, which applies them to g.
    """

    def __init__(
        self, params: Iterable[Any], lr: float, momentum: float = 0, weight_decay: float = 0, nesterov: bool = False
    ) -> None:
        check_at_least("learning rate", lr)
        check_at_least("momentum value", momentum)
        check_at_least("weight_decay value", weight_decay)
        if nesterov and momentum <= 0:
            raise ValueError(f"Nesterov momentum requires a momentum; got momentum={momentum}")
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("nesterov", False)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One update; `closure` computes the loss anew and is called first."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            parameters = parameters_with_gradients(group, "FusedResourceApplyMomentum")
            if not parameters:
                continue
            pairs = []
            for parameter in parameters:
                state = self.state[parameter]
                if state.get("momentum_buffer") is None:
                    state["momentum_buffer"] = torch.zeros_like(parameter)
                pairs += [parameter.detach(), state["momentum_buffer"]]
            mark_step()
            gradients = [parameter.grad for parameter in parameters]
            torch.ops.hpu.optimizer_resource_apply_momentum(pairs, gradients, float(group["momentum"]))
            mark_step()
        return loss
