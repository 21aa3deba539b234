"""The PyTorch bridge: importing it makes `hpu` a device of PyTorch."""

from __future__ import annotations

from .. import _shield

with _shield.ours():
    from . import (
        activity_profiler,
        core,
        distributed,
        dynamo,
        hpex,
        hpu,
        internal,
        low_overhead_profiler,
        profiler,
        utils,
    )

hpex.optimizers.replacement.replace_where_asked()

__all__ = [
    "activity_profiler",
    "core",
    "distributed",
    "dynamo",
    "hpex",
    "hpu",
    "internal",
    "low_overhead_profiler",
    "profiler",
    "utils",
]
