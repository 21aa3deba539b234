"""The step that the fused optimizers share: the closure's loss, then the update of all groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer


class FusedOptimizer(Optimizer):
    """An optimizer whose update is `_update_all`."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One update; `closure` computes the loss anew and is called first. Returns that loss, or None."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._update_all()
        return loss

    def _update_all(self) -> None:
        """The update of all groups, from the gradients as they are."""
        raise NotImplementedError
