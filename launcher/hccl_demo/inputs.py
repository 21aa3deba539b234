"""The data of a test: element i of rank r is r + n (i mod 13), so cells and ranks differ and sums stay small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

PERIOD = 13  # HabanaAI/hccl_demo, DATA_ELEMENTS_MAX
CHUNK = PERIOD * 2**18
"""Elements that are written or read at once, so that a large test needs little memory beside its tensors."""

_REDUCTIONS: dict[str, Callable[..., Any]] = {"sum": np.sum, "min": np.min, "max": np.max}


def value(rank: int | np.ndarray, ranks: int, places: np.ndarray) -> np.ndarray:
    """Input of `rank` at these indexes."""
    return rank + ranks * (places % PERIOD)


def reduced_value(members: Sequence[int], reduction: str, places: np.ndarray) -> np.ndarray:
    """The members' inputs at these indexes, reduced."""
    table = value(np.array(members)[:, None], len(members), np.arange(PERIOD)[None, :])
    return np.asarray(_REDUCTIONS[reduction](table, axis=0))[places % PERIOD]


def fill(tensor: torch.Tensor, rank: int, ranks: int) -> None:
    """Write a rank's input into an hpu tensor of shape [elements]."""
    elements = tensor.numel()
    floats = torch.from_numpy(value(rank, ranks, np.arange(min(CHUNK, elements)))).to(torch.float32)
    chunk = truncated(floats) if tensor.dtype == torch.bfloat16 else floats
    for low in range(0, elements, CHUNK):
        high = min(low + CHUNK, elements)
        tensor[low:high].copy_(chunk[: high - low])


def truncated(floats: torch.Tensor) -> torch.Tensor:
    """bfloat16 as the real program makes it: the upper half of a float, not rounded."""
    return (floats.view(torch.int32) >> 16).to(torch.int16).view(torch.bfloat16)
