"""PT_HPU_REPLACE_ADAM_ADAMW: scripts that make torch.optim.Adam and AdamW get those that mark steps."""

from __future__ import annotations

import os

import torch

from .MarkstepAdam import Adam
from .MarkstepAdamW import AdamW


def replace_where_asked() -> None:
    """Put the variants into torch.optim where the variable is 1, true or yes."""
    if os.environ.get("PT_HPU_REPLACE_ADAM_ADAMW", "0").strip().lower() not in ("1", "true", "yes"):
        return
    torch.optim.Adam = torch.optim.adam.Adam = Adam  # type: ignore[misc]
    torch.optim.AdamW = torch.optim.adamw.AdamW = AdamW  # type: ignore[misc]
