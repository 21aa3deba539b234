"""The PyTorch bridge: importing it makes `hpu` a device of PyTorch."""

from __future__ import annotations

import os

from .. import _shield, autoload

os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no pool of processes that compile for the CPU
autoload.is_loaded = True

with _shield.ours():
    from device.environment import flag

    from . import (
        activity_profiler,
        core,
        distributed,
        dynamo,
        hpex,
        hpu,
        hw_utilization_metric,
        internal,
        low_overhead_profiler,
        profiler,
        utils,
    )

hpex.optimizers.replacement.replace_where_asked()
if flag("PT_HPU_GPU_MIGRATION", False):
    _shield.load("habana_frameworks.torch.gpu_migration")

__all__ = [
    "activity_profiler",
    "core",
    "distributed",
    "dynamo",
    "hpex",
    "hpu",
    "hw_utilization_metric",
    "internal",
    "low_overhead_profiler",
    "profiler",
    "utils",
]
