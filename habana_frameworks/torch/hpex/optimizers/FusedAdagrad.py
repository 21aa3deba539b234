"""Adagrad with all parameters of a group in one node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ...core.step_closure import _mark_step_if_lazy as mark_step
from .fused_optimizer import FusedOptimizer
from .gradients import check_at_least, gradients_of, on_card, parameters_with_gradients


class FusedAdagrad(FusedOptimizer):
    """torch.optim.Adagrad. In lazy mode the graph ends before each group's update."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
    ) -> None:
        check_at_least("learning rate", lr)
        check_at_least("lr_decay value", lr_decay)
        check_at_least("weight_decay value", weight_decay)
        check_at_least("initial_accumulator_value value", initial_accumulator_value)
        check_at_least("epsilon value", eps)
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["sum"] = torch.full_like(parameter, group["initial_accumulator_value"])
        mark_step()

    def _update_all(self) -> None:
        for group in self.param_groups:
            mark_step()
            parameters = parameters_with_gradients(group, "FusedAdagrad", "SparseAdagrad")
            if not parameters:
                continue
            group["step"] = group.get("step", 0) + 1
            for parameter in parameters:
                if "sum" not in self.state[parameter]:  # of a group that was added later
                    initial = group["initial_accumulator_value"]
                    self.state[parameter]["sum"] = torch.full_like(parameter, initial)
            torch.ops.hpu.optimizer_adagrad(
                gradients_of(parameters),
                [parameter.detach() for parameter in parameters],
                [self.state[parameter]["sum"] for parameter in parameters],
                on_card(group["step"], parameters[0], torch.int32),
                on_card(group["lr"], parameters[0]),
                float(group["weight_decay"]),
                float(group["lr_decay"]),
                float(group["eps"]),
            )
