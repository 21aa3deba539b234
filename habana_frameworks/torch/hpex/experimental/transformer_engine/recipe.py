"""How modules choose the scales of their 8-bit floats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor


@dataclass(frozen=True)
class Pair:
    """Formats of the forward and of the backward pass."""

    fwd: torch.dtype
    bwd: torch.dtype


class Format(Enum):
    """HYBRID: more precision for activations and weights, more range for gradients."""

    E4M3 = Pair(torch.float8_e4m3fn, torch.float8_e4m3fn)
    E5M2 = Pair(torch.float8_e5m2, torch.float8_e5m2)
    HYBRID = Pair(torch.float8_e4m3fn, torch.float8_e5m2)


ALGORITHMS = ("max", "most_recent")


@dataclass
class DelayedScaling:
    """Scales from the largest values of earlier steps: (format's largest / amax) / 2^margin.

    Attributes:
        margin: powers of two kept free.
        interval: steps between new scales.
        fp8_format: formats of both passes.
        amax_history_len: steps that are remembered.
        amax_compute_algo: "most_recent", "max" of the history, or a function of the history (steps, tensors).
        reduce_amax: take the largest of all ranks where a process group is there.
    """

    margin: int = 0
    interval: int = 1
    fp8_format: Format = Format.HYBRID
    amax_history_len: int = 1
    amax_compute_algo: str | Callable[[Tensor], Tensor] = "most_recent"
    reduce_amax: bool = True

    def __post_init__(self) -> None:
        if self.interval < 1 or self.amax_history_len < 1:
            raise ValueError(
                f"interval ({self.interval}) and amax_history_len ({self.amax_history_len}) must be at least 1"
            )
        if not callable(self.amax_compute_algo) and self.amax_compute_algo not in ALGORITHMS:
            raise ValueError(
                f"amax_compute_algo must be one of {', '.join(ALGORITHMS)}, or a function; got {self.amax_compute_algo!r}"
            )
        if not isinstance(self.fp8_format, Format):
            raise ValueError(f"fp8_format must be a Format such as Format.HYBRID; got {self.fp8_format!r}")
