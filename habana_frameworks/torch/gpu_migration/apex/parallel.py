"""`apex.parallel`: PyTorch's own."""

from __future__ import annotations

import torch
from torch.nn import SyncBatchNorm
from torch.nn.parallel import DistributedDataParallel


def convert_syncbn_model(module: torch.nn.Module, process_group: object = None) -> torch.nn.Module:
    """The module with its batch norms synchronised over the ranks."""
    return SyncBatchNorm.convert_sync_batchnorm(module, process_group)


__all__ = ["DistributedDataParallel", "SyncBatchNorm", "convert_syncbn_model"]
