"""torch.optim.AdamW whose step stands in a graph of its own in lazy mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...core import mark_step


class AdamW(torch.optim.AdamW):
    """The graph ends before and behind each step."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One update; `closure` computes the loss anew."""
        mark_step()
        loss = super().step(closure)
        mark_step()
        return loss
