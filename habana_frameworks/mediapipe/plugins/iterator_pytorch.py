"""Iterators that hand a pipe's batches to PyTorch: making one raises `NotImplementedError`."""

from __future__ import annotations

from ..unavailable import Unavailable


class HPUGenericPytorchIterator(Unavailable):
    """Batches of any pipe, decoded on the card."""


class HPUResnetPytorchIterator(Unavailable):
    """Images and labels, decoded on the card."""


class CPUHPUResnetPytorchIterator(Unavailable):
    """Images and labels, decoded on host and card."""


class HPUSsdPytorchIterator(Unavailable):
    """Images, boxes and labels, decoded on the card."""


class CPUHPUUnet3DPytorchIterator(Unavailable):
    """Volumes and their masks, read on the host and transformed on the card."""
