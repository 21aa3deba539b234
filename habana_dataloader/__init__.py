"""`habana_dataloader`: the loader package beside the bridge. Here its loader is PyTorch's own, on the host."""

from __future__ import annotations

from . import habana_dataset
from .habana_dataset import HabanaDataLoader, fetch_habana_unet_loader

__all__ = ["HabanaDataLoader", "fetch_habana_unet_loader", "habana_dataset"]
