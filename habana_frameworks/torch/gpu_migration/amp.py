"""Mixed precision asked for on `cuda`, on hpu; with PT_HPU_CONVERT_FP16_TO_BF16_FOR_MIGRATION in bfloat16."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.amp import autocast_mode, grad_scaler

from device.environment import flag

from .call_log import note

CONVERT = flag("PT_HPU_CONVERT_FP16_TO_BF16_FOR_MIGRATION", False)


def _name(device_type: Any) -> Any:
    if device_type == "cuda":
        note("device_type cuda", "hpu")
        return "hpu"
    return device_type


def _dtype(dtype: Any) -> Any:
    return torch.bfloat16 if CONVERT and dtype == torch.float16 else dtype


def _first(function: Callable[..., Any], default: str) -> Callable[..., Any]:
    """A function whose first argument names a kind of device."""

    @functools.wraps(function)
    def call(device_type: str = default, *arguments: Any, **options: Any) -> Any:
        return function(_name(device_type), *map(_dtype, arguments), **options)

    return call


def apply() -> None:
    """Install the mapping."""
    autocast, scaler = autocast_mode.autocast.__init__, grad_scaler.GradScaler.__init__

    @functools.wraps(autocast)
    def start(self: Any, device_type: str, dtype: Any = None, *arguments: Any, **options: Any) -> None:
        # torch.cuda.amp.autocast gives float16 where the script says nothing; the card's own default is bfloat16.
        autocast(self, _name(device_type), _dtype(dtype), *arguments, **options)

    @functools.wraps(scaler)
    def scale(self: Any, device: str = "cuda", *arguments: Any, **options: Any) -> None:
        scaler(self, _name(device), *arguments, **options)

    autocast_mode.autocast.__init__ = start  # type: ignore[method-assign]
    grad_scaler.GradScaler.__init__ = scale  # type: ignore[method-assign]
    for name in ("is_autocast_enabled", "get_autocast_dtype", "set_autocast_enabled", "set_autocast_dtype"):
        setattr(torch, name, _first(getattr(torch, name), "cuda"))
    torch.get_autocast_gpu_dtype = lambda: torch.get_autocast_dtype("hpu")
    torch.set_autocast_gpu_dtype = lambda dtype: torch.set_autocast_dtype("hpu", _dtype(dtype))
    if CONVERT:
        torch.Tensor.half = torch.Tensor.bfloat16  # type: ignore[method-assign]
        torch.nn.Module.half = torch.nn.Module.bfloat16  # type: ignore[method-assign]
