"""`apex.optimizers`: the card's fused optimizers, with apex's arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ...hpex import optimizers


class FusedSGD(optimizers.FusedSGD):
    """apex's name for it."""


class FusedLAMB(optimizers.FusedLamb):
    """apex's name for it."""


class FusedAdagrad(optimizers.FusedAdagrad):
    """apex's name for it."""


class FusedAdam(optimizers.FusedAdamW):
    """Decoupled weight decay, which is apex's default (`adam_w_mode=True`), and eps 1e-8 as there.

    Raises:
        NotImplementedError: `adam_w_mode=False`, which `torch.optim.Adam` does.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        adam_w_mode: bool = True,
        weight_decay: float = 0.0,
        **options: Any,
    ) -> None:
        if not adam_w_mode:
            raise NotImplementedError("apex's FusedAdam with adam_w_mode=False: use torch.optim.Adam")
        super().__init__(params, lr, betas, eps, weight_decay, bias_correction)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Gradients are dropped, as apex does."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if isinstance(parameter, torch.Tensor):
                    parameter.grad = None
