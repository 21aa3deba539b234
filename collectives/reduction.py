"""The arithmetic of a reduction: always rank 0 first, then 1, 2, ..., so every rank and every run gets the
same bits.

float16 and bfloat16 are summed in float32 and rounded once. bool is SUM -> max and PRODUCT -> min on bytes,
as the real bridge maps it. Integers wrap around. The minimum or maximum of anything and a NaN is a NaN, whose
bits are not specified (but the same on all ranks). The loops are native (`transport/csrc/kernels.cpp`).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

import numpy as np
import torch

from .transport import native

_STORED_AS: dict[torch.dtype, np.dtype] = {
    torch.uint8: np.dtype(np.uint8),
    torch.int8: np.dtype(np.int8),
    torch.bool: np.dtype(np.uint8),
    torch.int32: np.dtype(np.int32),
    torch.int64: np.dtype(np.int64),
    torch.float16: np.dtype(np.int16),
    torch.bfloat16: np.dtype(np.int16),
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.float8_e4m3fn: np.dtype(np.uint8),
    torch.float8_e5m2: np.dtype(np.uint8),
}
_REINTERPRETED = {
    torch.bool: torch.uint8,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e5m2: torch.uint8,
}
_MOVED_ONLY = {torch.float8_e4m3fn, torch.float8_e5m2}
_OPERATIONS = ("SUM", "MIN", "MAX", "PRODUCT")
_TYPES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.bool: 0,
    torch.int32: 2,
    torch.int64: 3,
    torch.float16: 4,
    torch.bfloat16: 5,
    torch.float32: 6,
    torch.float64: 7,
}
# Both as numbered in csrc/kernels.h.


class Reduction:
    """SUM, MIN, MAX or PRODUCT of elements of a dtype.

    `type_code` and `operation_code` are what the native data plane calls them.
    """

    def __init__(self, type_code: int, operation_code: int) -> None:
        self.type_code = type_code
        self.operation_code = operation_code

    def __call__(self, target: np.ndarray, sources: Sequence[np.ndarray]) -> None:
        """Reduce 1-D contiguous arrays of equal length in the storage dtype; `target` may be one of them."""
        addresses = (ctypes.c_void_p * len(sources))(*[source.ctypes.data for source in sources])
        native.library().hccl_reduce(
            self.type_code, self.operation_code, target.ctypes.data, addresses, len(sources), len(target)
        )


def storage_dtype(dtype: torch.dtype) -> np.dtype:
    """The numpy dtype in which elements of a torch dtype are moved."""
    stored: np.dtype = _STORED_AS[dtype]
    return stored


def flat_array(tensor: torch.Tensor) -> np.ndarray:
    """A contiguous, detached CPU tensor's memory as a 1-D array of its storage dtype."""
    stored = _REINTERPRETED.get(tensor.dtype)
    if tensor.dim() != 1:
        tensor = tensor.reshape(-1)
    return (tensor if stored is None else tensor.view(stored)).numpy()


def is_reducible(dtype: torch.dtype) -> bool:
    """fp8 is only moved."""
    return dtype in _STORED_AS and dtype not in _MOVED_ONLY


@functools.lru_cache(maxsize=256)
def reduction(name: str, dtype: torch.dtype) -> Reduction:
    """The reduction `SUM`, `MIN`, `MAX` or `PRODUCT` for elements of a dtype."""
    if dtype == torch.bool:
        name = {"SUM": "MAX", "PRODUCT": "MIN"}.get(name, name)
    return Reduction(_TYPES[dtype], _OPERATIONS.index(name))
