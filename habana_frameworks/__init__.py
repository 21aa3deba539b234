"""The Gaudi software's Python names, answered by emulated cards."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from . import _shield, autoload


class _UnbuiltDevice(ModuleType):
    """`torch.hpu` until the first use of anything in it, which builds the bridge to PyTorch where it is missing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_shield.load("habana_frameworks.torch.hpu"), name)


def __autoload() -> None:
    """Entry point of `torch.backends`: `import torch` alone gives `torch.hpu`. PT_HPU_AUTOLOAD=0 turns it off.

    Where the bridge was built before, the device is registered now. Otherwise that waits for the first use of the
    device, so that programs without one are not held up, and see the PyTorch that they would see without us.
    """
    if autoload.is_loaded or not autoload.is_autoload_enabled():
        return
    # A module of ours that imports PyTorch is not complete yet when PyTorch calls here: then, too, wait.
    if not _shield.importing() and _shield.load("device.backend.native").library_path().exists():
        _shield.load("habana_frameworks.torch")
        return
    torch = sys.modules["torch"]
    torch._register_device_module("hpu", _UnbuiltDevice("torch.hpu"))
