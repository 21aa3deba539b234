"""Setting the device up for inference, and taking that back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from device import flags
from device.constants import constants, marking
from device.errors import ConfigurationError

from ..hpu import switches
from ..internal import fuse_conv_bn
from ..utils.internal import is_lazy

_RED, _PLAIN = "\033[31m", "\033[0m"
_SHARING_WARNING = (
    "WARNING: weight sharing, an experimental feature, is enabled: quantized models may take more device memory; "
    "set PT_HPU_WEIGHT_SHARING=0 to disable it"
)

_ranges: dict[str, tuple[float, float]] = {}
_is_set = False


def hpu_set_inference_env(model: torch.nn.Module | None = None) -> torch.nn.Module | None:
    """Turn inference mode on; with a model, which must be on the CPU and in evaluation, give it back fused.

    Call it before the model moves to hpu. Prints a warning while weight sharing is enabled.
    """
    global _is_set
    _enable()
    _is_set = True
    if flags.get("PT_HPU_WEIGHT_SHARING") and flags.get("EXPERIMENTAL_WEIGHT_SHARING"):
        print(f"{_RED}{_SHARING_WARNING}{_PLAIN}")
    return None if model is None else fuse_conv_bn.fuse(model)


def hpu_inference_initialize(
    model: torch.nn.Module | None = None,
    mark_only_scales_as_const: bool = False,
    optimizer: Any = None,
    args: Any = None,
) -> None:
    """Turn inference mode on where it is not, and mark the model's parameters as constant.

    Call it after the model has moved to hpu. Value ranges in the file PT_INFERENCE_RANGE_FILE, and those that a model
    carries in its buffer `ranges`, are read.

    Raises:
        ConfigurationError: the file of ranges cannot be read.
    """
    if not _is_set:
        _enable()
    if model is None:
        return
    if is_lazy():
        _mark_params_as_const(model, only_scales=mark_only_scales_as_const)
    _read_ranges(flags.get("PT_INFERENCE_RANGE_FILE"))
    quantized: Any = model._buffers.get("HB_QUANTIZATION")
    if isinstance(quantized, dict) and quantized.get("quantization") is True:
        switches.enable_quantization()
    _take_ranges(model)


def hpu_teardown_inference_env() -> None:
    """Turn inference mode off."""
    switches.disable_inference_mode()
    switches.disable_matmul3d_2d_reshape()


# Older and newer names of the same.
hpu_set_env = hpu_inference_set_env = hpu_set_inference_env
hpu_initialize = hpu_inference_initialize
hpu_reset_env = hpu_inference_reset_env = hpu_teardown_inference_env


def _enable() -> None:
    switches.enable_inference_mode()
    switches.enable_matmul3d_2d_reshape()


def _mark_params_as_const(
    model: torch.nn.Module | None = None, only_scales: bool = False, console_prints: bool = False
) -> None:
    """Mark a model's tensors as constant: all, or those with `scale` in their name."""
    for name, tensor in _tensors(model, only_scales):
        is_scale = "scale" in name
        if not (marking.scales if is_scale else marking.others):
            continue
        constant = constants.mark(tensor)
        if console_prints:
            print(f"Tensor '{name}' is_const '{constant.is_const_tensor}' id '{constant.const_id}'")


def _check_params_as_const(model: torch.nn.Module | None = None, only_scales: bool = False) -> None:
    """Check that a model's tensors are marked.

    Raises:
        RuntimeError: one is not.
    """
    for name, tensor in _tensors(model, only_scales):
        if constants.find(tensor) is None and (marking.scales if "scale" in name else marking.others):
            raise RuntimeError(f"{name} is not marked as constant; call hpu_inference_initialize(model) first")


def _get_marked_const_count() -> int:
    """Tensors marked as constant so far."""
    return constants.count


def _tensors(model: torch.nn.Module | None, only_scales: bool) -> list[tuple[str, torch.Tensor]]:
    if model is None:
        return []
    return [
        (name, value)
        for name, value in model.state_dict(keep_vars=True).items()
        if isinstance(value, torch.Tensor) and (not only_scales or "scale" in name)
    ]


def _read_ranges(path: str) -> None:
    """Lines `module/name minimum maximum`."""
    if not path:
        return
    try:
        lines = Path(os.path.expanduser(path)).read_text().splitlines()
    except OSError as error:
        raise ConfigurationError(f"PT_INFERENCE_RANGE_FILE={path} cannot be read: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        words = line.partition("/")[2].split() if "/" in line else line.split()
        if not words:
            continue
        try:
            _ranges[words[0]] = float(words[1]), float(words[2])
        except (IndexError, ValueError) as error:
            raise ConfigurationError(
                f"PT_INFERENCE_RANGE_FILE={path}, line {number}: {line!r} is not of the form 'name minimum maximum'"
            ) from error


def _take_ranges(model: torch.nn.Module) -> None:
    ranges: Any = model._buffers.get("ranges")
    outputs = ranges.get("outputs") if isinstance(ranges, dict) else None
    if not isinstance(outputs, dict):
        return
    lows = {name.removesuffix(".min_val"): value for name, value in outputs.items() if name.endswith(".min_val")}
    for name, low in lows.items():
        high = outputs.get(f"{name}.max_val")
        if high is not None:
            _ranges[name.replace("layernorm.norm", "layernorm")] = float(low), float(high)
