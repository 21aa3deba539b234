"""Step marks and other calls of `habana_frameworks.torch.core` (usually imported as htcore)."""

from __future__ import annotations

from .. import hpu
from . import quantization, torch_overwrites
from .quantization import (
    hpu_inference_initialize,
    hpu_inference_reset_env,
    hpu_inference_set_env,
    hpu_initialize,
    hpu_reset_env,
    hpu_set_env,
    hpu_set_inference_env,
    hpu_teardown_inference_env,
)
from .step import _mark_step_if_lazy as _mark_step_if_lazy
from .step import add_step_closure, iter_mark_step, mark_step

__all__ = [
    "add_step_closure",
    "hpu",
    "hpu_inference_initialize",
    "hpu_inference_reset_env",
    "hpu_inference_set_env",
    "hpu_initialize",
    "hpu_reset_env",
    "hpu_set_env",
    "hpu_set_inference_env",
    "hpu_teardown_inference_env",
    "iter_mark_step",
    "mark_step",
    "quantization",
    "torch_overwrites",
]
