"""The PyTorch bridge: importing it makes `hpu` a device of PyTorch."""

from __future__ import annotations

from .. import _shield

with _shield.ours():
    from . import core, distributed, hpu, utils

__all__ = ["core", "distributed", "hpu", "utils"]
