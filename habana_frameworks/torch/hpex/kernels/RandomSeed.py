"""A new seed from a seed, on the card."""

from __future__ import annotations

import torch
from torch import Tensor


def random_seed(x: Tensor) -> Tensor:
    """int32, of the shape of `x`.

    Raises:
        TypeError: a seed of another dtype.
        ValueError: a seed on the CPU.
    """
    if x.dtype != torch.int32:
        raise TypeError(f"Only int32 seed is accepted, got: {x.dtype}")
    if x.device.type == "cpu":
        raise ValueError('HPU RandomSeed is only supported on hpu device; move the seed with .to("hpu")')
    return torch.ops.hpu.habana_random_seed(x)
