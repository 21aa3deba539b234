"""Stochastic gradient descent with all parameters of a group in one node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ...core.step_closure import _mark_step_if_lazy as mark_step
from .fused_optimizer import FusedOptimizer
from .gradients import check_at_least, gradients_of, on_card, parameters_with_gradients


class FusedSGD(FusedOptimizer):
    """torch.optim.SGD. In lazy mode the graph ends before and behind each group's update."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
    ) -> None:
        check_at_least("learning rate", lr)
        check_at_least("momentum value", momentum)
        check_at_least("weight_decay value", weight_decay)
        check_at_least("dampening value", dampening)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(
                "Nesterov momentum requires a momentum and zero dampening; "
                f"got momentum={momentum}, dampening={dampening}"
            )
        defaults = {
            "lr": lr, "momentum": momentum, "weight_decay": weight_decay, "dampening": dampening, "nesterov": nesterov,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update_all(self) -> None:
        for group in self.param_groups:
            parameters = parameters_with_gradients(group, "FusedSGD", "SparseSGD")
            if not parameters:
                continue
            mark_step()
            if group["momentum"] == 0:
                self._plain(group, parameters)
            else:
                new = [parameter for parameter in parameters if "momentum_buffer" not in self.state[parameter]]
                known = [parameter for parameter in parameters if "momentum_buffer" in self.state[parameter]]
                self._with_momentum(group, new, 0)
                self._with_momentum(group, known, 1)
            mark_step()

    @staticmethod
    def _plain(group: dict[str, Any], parameters: list[Tensor]) -> None:
        torch.ops.hpu.optimizer_sgd(
            gradients_of(parameters),
            [parameter.detach() for parameter in parameters],
            on_card(group["lr"], parameters[0]),
            float(group["weight_decay"]),
            float(group["momentum"]),
            float(group["dampening"]),
            group["nesterov"],
        )

    def _with_momentum(self, group: dict[str, Any], parameters: list[Tensor], epoch: int) -> None:
        """`epoch` 0: a parameter's first update, which takes the gradient as the buffer."""
        if not parameters:
            return
        for parameter in parameters if epoch == 0 else ():
            self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        torch.ops.hpu.optimizer_sgd_momentum(
            gradients_of(parameters),
            [parameter.detach() for parameter in parameters],
            [self.state[parameter]["momentum_buffer"] for parameter in parameters],
            on_card(epoch, parameters[0], torch.int32),
            on_card(group["lr"], parameters[0]),
            on_card(group["momentum"], parameters[0]),
            float(group["weight_decay"]),
            float(group["dampening"]),
            group["nesterov"],
        )
