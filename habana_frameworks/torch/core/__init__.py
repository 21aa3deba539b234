"""Step marks and other calls of `habana_frameworks.torch.core` (usually imported as htcore)."""

from __future__ import annotations

from .. import hpu
from . import (
    hccl,
    observer,
    quantization,
    quantize_pt2e,
    quantizer,
    step_closure,
    torch_overwrites,
    weight_sharing,
)
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
from .step_closure import _mark_step_if_lazy as _mark_step_if_lazy
from .step_closure import add_step_closure, iter_mark_step, mark_step

torch_overwrites.overwrite_torch_functions()

__all__ = [
    "add_step_closure",
    "hccl",
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
    "observer",
    "quantization",
    "quantize_pt2e",
    "quantizer",
    "step_closure",
    "torch_overwrites",
    "weight_sharing",
]
