"""AdamW with all parameters of a group in one node."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import torch

from ...core.step_closure import _mark_step_if_lazy as mark_step
from .adamw_moments import new_state, step_size, update
from .fused_optimizer import FusedOptimizer
from .gradients import check_at_least, check_betas, gradients_of, parameters_with_gradients

_logger = logging.getLogger(__name__)


class FusedAdamW(FusedOptimizer):
    """torch.optim.AdamW, with another default `eps` and no weight decay by default.

    `bias_correction=False` leaves out the correction of the moments; `moments_dtype` is their dtype, or one for each
    (8 bits as well). The number of steps is in the group. In lazy mode the graph ends before each group and behind the
    step; the learning rate may change without a new recipe.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        bias_correction: bool = True,
        moments_dtype: torch.dtype | tuple[torch.dtype, torch.dtype] | None = None,
    ) -> None:
        check_at_least("learning rate", lr)
        check_betas(betas)
        check_at_least("epsilon value", eps)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "bias_correction": bias_correction,
        }  # fmt: skip
        super().__init__(params, defaults)
        self.moments_dtype = moments_dtype

    def _update_all(self) -> None:
        for group in self.param_groups:
            mark_step()
            parameters = parameters_with_gradients(group, "FusedAdamW", "torch.optim.SparseAdam")
            if not parameters:
                continue
            for parameter in parameters:
                if not self.state[parameter]:
                    self.state[parameter].update(new_state(parameter, self.moments_dtype, 0))
            states = [self.state[parameter] for parameter in parameters]
            group["step"] = self._steps_before(group, states) + 1
            lr = float(group["lr"])
            size = step_size(lr, group["betas"], group["step"], self.is_bias_correction(group))
            gradients = gradients_of(parameters)
            decay = 1.0 - group["weight_decay"] * lr
            update(parameters, gradients, states, size, group["betas"], group["eps"], decay)
        mark_step()

    @staticmethod
    def _steps_before(group: dict[str, Any], states: list[dict[str, Any]]) -> int:
        """Of the group; a state of torch.optim.AdamW has them with each parameter."""
        if "step" in group:
            return group["step"]
        counted = [state["step"] for state in states if isinstance(state.get("step"), torch.Tensor)]
        return int(counted[0].item()) if counted else 0

    @staticmethod
    def is_bias_correction(group: dict[str, Any]) -> bool:
        """From the group, also of older checkpoints (`correct_bias`) and of torch.optim.AdamW's (always)."""
        if "bias_correction" in group:
            return group["bias_correction"]
        if "correct_bias" in group:
            _logger.warning("FusedAdamW: no key 'bias_correction' in this checkpoint; using 'correct_bias' instead")
            return group["correct_bias"]
        return True
