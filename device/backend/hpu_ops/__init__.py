"""`torch.ops.hpu`: the card's own operators, each one node of the graph.

`register()` defines them all and returns what keeps them alive.
"""

from __future__ import annotations

from . import (
    ctc_loss,
    detection,
    embedding,
    fp8,
    fp8_gemm,
    int4,
    key_value_cache,
    lamb,
    moe_operators,
    optimizer_updates,
    plain,
    rms_norm,
    rotary,
    sdpa,
    sdpa_fp8,
    softmax,
    sparse_data,
)
from .registry import Registry

MODULES = (
    ctc_loss,
    detection,
    embedding,
    fp8,
    fp8_gemm,
    int4,
    key_value_cache,
    lamb,
    moe_operators,
    optimizer_updates,
    plain,
    rms_norm,
    rotary,
    sdpa,
    sdpa_fp8,
    softmax,
    sparse_data,
)


def register() -> Registry:
    """Define every operator of the namespace."""
    registry = Registry()
    for module in MODULES:
        module.register(registry)
    return registry
