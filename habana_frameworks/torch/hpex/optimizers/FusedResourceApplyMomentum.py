"""Momentum on gradients that have the learning rate in them already, as FusedLars makes them, in one node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ...core.step_closure import _mark_step_if_lazy as mark_step
from .fused_optimizer import FusedOptimizer
from .gradients import check_at_least, gradients_of, parameters_with_gradients


class FusedResourceApplyMomentum(FusedOptimizer):
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

    def _update_all(self) -> None:
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
            gradients = gradients_of(parameters)
            torch.ops.hpu.optimizer_resource_apply_momentum(pairs, gradients, float(group["momentum"]))
            mark_step()
