"""Switches of the bridge that a program turns at run time: inference, quantization, reshaping, determinism.

Most choose among kernels on the card that give the same numbers; they are remembered, and the flags of
`internal.bridge_config` of the same meaning follow.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from device import flags
from device.constants import constants, marking

INFERENCE = "PT_HPU_INFERENCE_MODE"
RESHAPE = "PT_HPU_MATMUL3D_2D_RESHAPE"
OUTPUT_SIZES = "PT_HPU_OPTIM_DYNAMIC_OUTPUT_SIF"
STREAMS = "PT_ENABLE_HABANA_STREAMASYNC"

_recompute_attention = True
_quantization = False
_scales_are_constant: bool | None = None


def enable_inference_mode() -> None:
    """Parameters that are marked as constant stay on the card as such (`core.hpu_initialize`)."""
    flags.set(INFERENCE, True)


def disable_inference_mode() -> None:
    """Back to training; constants are ordinary tensors again."""
    flags.set(INFERENCE, False)


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on."""
    return bool(flags.get(INFERENCE))


def enable_matmul3d_2d_reshape() -> None:
    """Have products with a batch in front run as one matrix product."""
    flags.set(RESHAPE, True)


def disable_matmul3d_2d_reshape() -> None:
    """Have products run with the shapes that they have."""
    flags.set(RESHAPE, False)


def is_matmul3d_2d_reshape_enabled() -> bool:
    """Whether products with a batch in front run as one matrix product."""
    return bool(flags.get(RESHAPE))


def enable_optim_output_sif() -> None:
    """Infer sizes of outputs once per graph."""
    flags.set(OUTPUT_SIZES, True)


def disable_optim_output_sif() -> None:
    """Infer sizes of outputs each time."""
    flags.set(OUTPUT_SIZES, False)


def enable_quantization() -> None:
    """Say that the model's values are quantized."""
    global _quantization
    _quantization = True


def disable_quantization() -> None:
    """Say that they are not."""
    global _quantization
    _quantization = False


def is_quantization_enabled() -> bool:
    """Whether `enable_quantization` was called."""
    return _quantization


def set_mark_scale_const(enabled: bool = True) -> None:
    """Have `hpu_initialize` mark parameters that are scales as constant."""
    marking.scales = bool(enabled)


def set_mark_non_scale_const(enabled: bool = True) -> None:
    """Have `hpu_initialize` mark parameters that are no scales as constant."""
    marking.others = bool(enabled)


def enable_const_section_serialization(path: Any, clear_path: bool = False, use_compression: bool = False) -> None:
    """Write constants to files in the folder `path` as they come to be used, and take them from there later.

    `clear_path` empties the folder first; `use_compression` packs the files.

    Raises:
        ConfigurationError: the folder cannot be made or written.
    """
    constants.serialize_to(str(path), bool(clear_path), bool(use_compression))


def disable_const_section_serialization() -> None:
    """Write no constants any more."""
    constants.serialize_to("", False, False)


def setDeterministic(val: bool) -> None:
    """Deprecated: `torch.use_deterministic_algorithms`."""
    warnings.warn(
        "torch.hpu.setDeterministic is deprecated; use torch.use_deterministic_algorithms instead", stacklevel=2
    )
    torch.use_deterministic_algorithms(bool(val), warn_only=True)


def getDeterministic() -> bool:
    """Deprecated: `torch.are_deterministic_algorithms_enabled`."""
    warnings.warn(
        "torch.hpu.getDeterministic is deprecated; use torch.are_deterministic_algorithms_enabled instead",
        stacklevel=2,
    )
    return torch.are_deterministic_algorithms_enabled()


def set_sync_debug_mode(debug_mode: bool | int) -> None:
    """Whether streams run asynchronously: writes PT_ENABLE_HABANA_STREAMASYNC; read when the card is acquired."""
    os.environ[STREAMS] = str(debug_mode)


def get_sync_debug_mode() -> int:
    """1 where streams run asynchronously, 0 where `set_sync_debug_mode(0)` or the environment said otherwise."""
    return int(flags.variables()[STREAMS].from_environment())


def enable_recompute_sdp(enabled: bool) -> None:
    """Whether `FusedSDPA` computes the attention weights anew in the backward pass instead of keeping them."""
    global _recompute_attention
    _recompute_attention = bool(enabled)


def recompute_sdp_enabled() -> bool:
    """Whether `FusedSDPA` computes them anew."""
    return _recompute_attention


@contextmanager
def sdp_kernel(enable_recompute: bool = True) -> Iterator[dict[str, Any]]:
    """Within the block `enable_recompute_sdp(enable_recompute)` holds."""
    before = recompute_sdp_enabled()
    enable_recompute_sdp(enable_recompute)
    try:
        yield {}
    finally:
        enable_recompute_sdp(before)


def set_autocast_hpu_enabled(enabled: bool) -> None:
    """Switch autocast on hpu on or off; `torch.autocast("hpu")` does so for a block."""
    torch.set_autocast_enabled("hpu", bool(enabled))


def is_autocast_hpu_enabled() -> bool:
    """Whether autocast on hpu is on."""
    return torch.is_autocast_enabled("hpu")


def set_autocast_hpu_dtype(dtype: torch.dtype) -> None:
    """The lower type of autocast on hpu."""
    torch.set_autocast_dtype("hpu", dtype)


def get_autocast_hpu_dtype() -> torch.dtype:
    """The lower type of autocast on hpu; bfloat16 unless another was set."""
    return torch.get_autocast_dtype("hpu")
