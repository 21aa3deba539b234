"""The two 8-bit floating-point formats of the card, and rounding to them.

`float8_e5m2` reaches 57,344. How far `float8_e4m3fn` reaches depends on the generation (`[dtypes] e4m3_largest` of the
card file). What lies beyond becomes the largest number, as the card's conversion saturates; NaN stays NaN. Stochastic
rounding takes the upper neighbour with the probability of the part that is cut off.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from ...spec import chosen_card

FORMATS = (torch.float8_e4m3fn, torch.float8_e5m2)
_MANTISSA = {torch.float8_e4m3fn: 3, torch.float8_e5m2: 2}
_SMALLEST_EXPONENT = {torch.float8_e4m3fn: -6, torch.float8_e5m2: -14}  # of normal numbers


@cache
def largest(dtype: torch.dtype) -> float:
    """The largest number that the card of this process makes of a format."""
    return chosen_card().dtypes.e4m3_largest if dtype == torch.float8_e4m3fn else torch.finfo(dtype).max


def is_fp8(dtype: torch.dtype) -> bool:
    return dtype in FORMATS


def require_card(operator: str) -> None:
    """Whether the card has 8-bit floats.

    Raises:
        RuntimeError: it has not.
    """
    spec = chosen_card()
    if "float8_e4m3fn" in spec.dtypes.refused:
        raise RuntimeError(
            f"hpu::{operator}: {spec.device_name} has no 8-bit floating-point formats; use bfloat16, or a card that has "
            "them (HPUCLUSTER_CARD=gaudi2 or gaudi3)"
        )


def round_to(values: Tensor, dtype: torch.dtype, stochastic: bool = False) -> Tensor:
    """`values` in an 8-bit format: to the nearest, ties to even, or stochastically from the default generator."""
    if values.dtype == dtype:
        return values.clone(memory_format=torch.contiguous_format)
    wide = values.float()
    if stochastic:
        wide = _stochastic(wide, dtype)
    limit = largest(dtype)
    return wide.clamp(-limit, limit).to(dtype).contiguous()


def _stochastic(values: Tensor, dtype: torch.dtype) -> Tensor:
    _, exponent = torch.frexp(values)
    step = torch.ldexp(torch.ones_like(values), (exponent - 1).clamp(min=_SMALLEST_EXPONENT[dtype]) - _MANTISSA[dtype])
    return torch.floor(values / step + torch.rand_like(values)) * step
