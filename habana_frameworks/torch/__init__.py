"""The PyTorch bridge: importing it makes `hpu` a device of PyTorch."""

from __future__ import annotations

from .. import _shield

with _shield.ours():
    from . import activity_profiler, core, distributed, dynamo, hpu, internal, low_overhead_profiler, profiler, utils

__all__ = [
    "activity_profiler",
    "core",
    "distributed",
    "dynamo",
    "hpu",
    "internal",
    "low_overhead_profiler",
    "profiler",
    "utils",
]
