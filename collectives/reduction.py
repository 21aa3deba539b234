"""The arithmetic of a reduction: always rank 0 first, then 1, 2, ..., so every rank and every run gets the
same bits.

float16 and bfloat16 are summed in float32 and rounded once. bool is SUM -> max and PRODUCT -> min on bytes,
as the real bridge maps it. Integers wrap around.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import torch

_NUMPY: dict[str, Callable[..., object]] = {
    "SUM": np.add,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "PRODUCT": np.multiply,
}
_TORCH: dict[str, Callable[..., torch.Tensor]] = {
    "SUM": torch.add,
    "MIN": torch.minimum,
    "MAX": torch.maximum,
    "PRODUCT": torch.mul,
}
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
Reduction = Callable[[np.ndarray, Sequence[np.ndarray]], None]
"""`reduction(target, sources)`: 1-D arrays of equal length in the storage dtype; `target` is none of the
sources.
"""


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
    if dtype in (torch.float16, torch.bfloat16):
        return _in_float32(_TORCH[name], dtype)
    return _in_place(_NUMPY[name])


def _in_place(combine: Callable[..., object]) -> Reduction:
    def reduce(target: np.ndarray, sources: Sequence[np.ndarray]) -> None:
        if len(sources) == 1:
            np.copyto(target, sources[0])
            return
        with np.errstate(all="ignore"):  # infinities and NaNs are the user's business, as everywhere in torch
            combine(sources[0], sources[1], out=target)
            for source in sources[2:]:
                combine(target, source, out=target)

    return reduce


def _in_float32(combine: Callable[..., torch.Tensor], dtype: torch.dtype) -> Reduction:
    def reduce(target: np.ndarray, sources: Sequence[np.ndarray]) -> None:
        if len(target) == 0:
            return
        total = torch.from_numpy(sources[0]).view(dtype).to(torch.float32)
        for source in sources[1:]:
            combine(total, torch.from_numpy(source).view(dtype).to(torch.float32), out=total)
        torch.from_numpy(target).view(dtype).copy_(total)

    return reduce
