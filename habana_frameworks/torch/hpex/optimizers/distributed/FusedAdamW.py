"""AdamW as torch.distributed.optim's functional optimizers are: no groups, gradients as an argument."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..adamw_moments import new_state, step_size, update
from ..gradients import check_at_least, check_betas


class FusedAdamW:
    """The functional form of FusedAdamW; one node for all parameters with gradients."""

    def __init__(
        self,
        params: list[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        _allow_empty_param_list: bool = False,
        moments_dtype: torch.dtype | tuple[torch.dtype, torch.dtype] | None = None,
    ) -> None:
        check_at_least("learning rate", lr)
        check_at_least("epsilon value", eps)
        check_betas(betas)
        check_at_least("weight_decay value", weight_decay)
        if not params and not _allow_empty_param_list:
            raise ValueError("optimizer got an empty parameter list; give it parameters")
        self.defaults = {"lr": lr, "eps": eps, "beta1": betas[0], "beta2": betas[1], "weight_decay": weight_decay}
        self.state: dict[Tensor, dict[str, Any]] = {}
        self.param_group = {"params": params}
        self.moments_dtype = moments_dtype

    def step_param(self, param: Tensor, grad: Tensor | None) -> None:
        """Not supported, as documented: use `step` with the gradients of all parameters."""
        raise RuntimeError("FusedAdamW does not support step_param(); use step() with the gradients of all parameters")

    @torch.no_grad()
    def step(self, gradients: list[Tensor | None]) -> None:
        """One update by gradients in the parameters' order; None leaves a parameter as it is."""
        params = self.param_group["params"]
        if len(params) != len(gradients):
            raise ValueError(
                f"there are {len(params)} parameters and {len(gradients)} gradients; give one gradient, or None, for each"
            )
        pairs = [(param, grad) for param, grad in zip(params, gradients, strict=True) if grad is not None]
        if not pairs:
            return
        for param, _ in pairs:
            if param not in self.state:
                self.state[param] = new_state(param, self.moments_dtype, torch.tensor(0.0))
            self.state[param]["step"] += 1
        states = [self.state[param] for param, _ in pairs]
        settings = self.defaults
        betas = (settings["beta1"], settings["beta2"])
        size = step_size(settings["lr"], betas, int(states[0]["step"].item()), True)
        decay = 1.0 - settings["weight_decay"] * settings["lr"]
        update([p for p, _ in pairs], [g for _, g in pairs], states, size, betas, settings["eps"], decay)
