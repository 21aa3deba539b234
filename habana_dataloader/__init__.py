"""`habana_dataloader`: the loader package beside the bridge. Here its loader is PyTorch's own, on the host."""

from __future__ import annotations

from . import habana_dataset
from .habana_dataset import HabanaDataLoader

__all__ = ["HabanaDataLoader", "habana_dataset"]
