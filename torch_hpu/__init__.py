"""The old name of the device's module; each function warns and names the new one."""

from __future__ import annotations

import warnings
from typing import Any

import habana_frameworks.torch.hpu as hpu

__all__ = ["device_count", "get_device_name", "is_available"]


def _warn(name: str) -> None:
    warnings.warn(f"torch_hpu.{name} is deprecated; use habana_frameworks.torch.hpu.{name}", stacklevel=3)


def is_available() -> bool:
    """Deprecated: `habana_frameworks.torch.hpu.is_available`."""
    _warn("is_available")
    return hpu.is_available()


def device_count() -> int:
    """Deprecated: `habana_frameworks.torch.hpu.device_count`."""
    _warn("device_count")
    return hpu.device_count()


def get_device_name(device: Any = None) -> str:
    """Deprecated: `habana_frameworks.torch.hpu.get_device_name`."""
    _warn("get_device_name")
    return hpu.get_device_name(device)
