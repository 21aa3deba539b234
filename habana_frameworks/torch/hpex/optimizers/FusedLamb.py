"""LAMB (You et al., arXiv 1904.00962) in two nodes for each group, and one that clips the gradients' norm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ...core.step_closure import _mark_step_if_lazy as mark_step
from .fused_optimizer import FusedOptimizer
from .gradients import check_at_least, check_betas, gradients_of, on_card, parameters_with_gradients


class FusedLamb(FusedOptimizer):
    """LAMB as apex's FusedLAMB has it.

    `max_grad_norm` (None: no clipping) divides all gradients by norm / max_grad_norm where the norm is larger.
    `grad_averaging` weights new gradients by 1 - beta1; `use_lamb` takes the trust ratio without weight decay, too;
    `dtype` is that in which the norm is taken. Decay is always decoupled, whatever `adam_w_mode` says.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        grad_averaging: bool = True,
        set_grad_none: bool = True,
        max_grad_norm: float | None = 1.0,
        use_lamb: bool = False,
        fused: bool = False,
        dtype: torch.dtype | None = None,
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedLamb does not support the AMSGrad variant; leave amsgrad=False")
        check_at_least("learning rate", lr)
        check_betas(betas)
        check_at_least("epsilon value", eps)
        defaults = {
            "lr": lr, "bias_correction": bias_correction, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "grad_averaging": grad_averaging, "max_grad_norm": max_grad_norm,
        }  # fmt: skip
        super().__init__(params, defaults)
        self.adam_w_mode = int(adam_w_mode)
        self.fused = fused
        self.set_grad_none = set_grad_none
        self.use_lamb = use_lamb
        self.device = self.param_groups[0]["params"][0].device
        self.dtype = dtype

    def zero_grad(self, set_to_none: bool | None = None) -> None:  # type: ignore[override]
        """Gradients become None, or zero with `set_grad_none=False` at construction."""
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)

    def _update_all(self) -> None:
        groups = [(group, parameters_with_gradients(group, "FusedLamb")) for group in self.param_groups]
        gradients = [gradient for _, parameters in groups for gradient in gradients_of(parameters)]
        if not gradients:
            return
        clip = self._clip(gradients)
        for group, parameters in groups:
            if parameters:
                self._update(group, parameters, clip)

    def _clip(self, gradients: list[Tensor]) -> Tensor:
        """What all gradients are divided by."""
        limit = self.defaults["max_grad_norm"]
        if limit is None:
            return on_card(1.0, gradients[0])
        typed = gradients if self.dtype is None else [gradient.to(self.dtype) for gradient in gradients]
        return torch.ops.hpu.optimizer_lamb_fused_norm(typed, float(limit))

    def _update(self, group: dict[str, Any], parameters: list[Tensor], clip: Tensor) -> None:
        group["step"] = group.get("step", 0) + 1
        corrections = [1.0 - beta ** group["step"] if group["bias_correction"] else 1.0 for beta in group["betas"]]
        mark_step()
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter]["exp_avg"] = torch.zeros_like(parameter)
                self.state[parameter]["exp_avg_sq"] = torch.zeros_like(parameter)
        weights = [parameter.detach() for parameter in parameters]
        norms = [[torch.empty(1, dtype=w.dtype, device=w.device) for w in weights] for _ in range(2)]
        steps = [torch.empty_like(weight) for weight in weights]
        mark_step()
        torch.ops.hpu.optimizer_lamb_phase1(
            gradients_of(parameters),
            weights,
            [self.state[parameter]["exp_avg"] for parameter in parameters],
            [self.state[parameter]["exp_avg_sq"] for parameter in parameters],
            norms[0],
            norms[1],
            steps,
            clip,
            int(group["grad_averaging"]),
            float(group["betas"][0]),
            float(group["betas"][1]),
            float(group["eps"]),
            *(on_card(correction, weights[0]) for correction in corrections),
            float(group["weight_decay"]),
        )
        mark_step()
        rate = on_card(-float(group["lr"]), weights[0])
        decay = float(group["weight_decay"])
        torch.ops.hpu.optimizer_lamb_phase2(weights, norms[1], norms[0], steps, rate, decay, self.use_lamb)
        mark_step()
