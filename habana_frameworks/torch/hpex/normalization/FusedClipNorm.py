"""torch.nn.utils.clip_grad_norm_ in one node."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from ...core import mark_step


class FusedClipNorm:
    """Clips gradients to a global L2 norm.

    Args:
        parameters: of the model; the dtype of the first is that of the norm.
        max_norm: largest norm. It is on the card: another one makes no new recipe.
    """

    def __init__(self, parameters: Iterable[Tensor], max_norm: float) -> None:
        self._parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        first = self._parameters[0] if self._parameters else None
        self.dtype = torch.float32 if first is None else first.dtype
        device = torch.device("hpu") if first is None else first.device
        self.max_norm_t = torch.full((1,), float(max_norm)).to(self.dtype).to(device)
        self.norm_type = 2.0

    @torch.no_grad()
    def clip_norm(self, parameters: Iterable[Tensor] | Tensor | None = None) -> Tensor:
        """Scale the `.grad` of the parameters in place where their common norm exceeds the largest one.

        In lazy mode the graph ends before and behind it. Without parameters: those given at construction.

        Returns:
            the norm before clipping, of shape (1,); the number 0.0 where nothing has a gradient.
        """
        mark_step()
        chosen = self._parameters if parameters is None else parameters
        listed = [chosen] if isinstance(chosen, Tensor) else chosen
        gradients = [parameter.grad for parameter in listed if parameter.grad is not None]
        if not gradients:
            return torch.tensor(0.0)
        norm = torch.ops.hpu.fused_norm_(gradients, self.max_norm_t, self.norm_type)
        mark_step()
        return norm


class FusedNorm(FusedClipNorm):
    """The name that FusedClipNorm had first."""
