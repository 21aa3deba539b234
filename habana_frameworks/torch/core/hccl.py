"""An older place of `habana_frameworks.torch.distributed.hccl`."""

from __future__ import annotations

from ..distributed.hccl import initialize_distributed_hpu

__all__ = ["initialize_distributed_hpu"]
