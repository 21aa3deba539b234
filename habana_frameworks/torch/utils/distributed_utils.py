"""The old place of `initialize_distributed_hpu`."""

from __future__ import annotations

import warnings

from ..distributed import hccl


def initialize_distributed_hpu() -> tuple[int, int, int]:
    """Deprecated: `habana_frameworks.torch.distributed.hccl.initialize_distributed_hpu`."""
    warnings.warn(
        "habana_frameworks.torch.utils.distributed_utils.initialize_distributed_hpu is deprecated; use "
        "habana_frameworks.torch.distributed.hccl.initialize_distributed_hpu",
        stacklevel=2,
    )
    return hccl.initialize_distributed_hpu()
