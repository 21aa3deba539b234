"""PyTorch's iterators over a pipeline."""

from __future__ import annotations

from ..._unavailable import kind
from .._refusal import ALTERNATIVE, FEATURE

HPUGenericPytorchIterator = kind("HPUGenericPytorchIterator", FEATURE, ALTERNATIVE)
HPUResnetPytorchIterator = kind("HPUResnetPytorchIterator", FEATURE, ALTERNATIVE)
CPUHPUResnetPytorchIterator = kind("CPUHPUResnetPytorchIterator", FEATURE, ALTERNATIVE)
HPUSsdPytorchIterator = kind("HPUSsdPytorchIterator", FEATURE, ALTERNATIVE)

__all__ = [
    "CPUHPUResnetPytorchIterator",
    "HPUGenericPytorchIterator",
    "HPUResnetPytorchIterator",
    "HPUSsdPytorchIterator",
]
