"""What every fused optimizer does before its update: collect parameters with gradients, move numbers to the card."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def check_at_least(name: str, value: float, least: float = 0.0, below: float | None = None) -> None:
    """Whether a setting is within its limits.

    Raises:
        ValueError: it is not.
    """
    if below is not None and not least <= value < below:
        raise ValueError(f"Invalid {name}: {value}; give a number from {least} on and below {below}")
    if below is None and not value >= least:
        raise ValueError(f"Invalid {name}: {value}; give a number of at least {least}")


def check_betas(betas: tuple[float, float]) -> None:
    """Both between 0 and 1."""
    for position, beta in enumerate(betas):
        check_at_least(f"beta parameter at index {position}", beta, 0.0, 1.0)


def parameters_with_gradients(group: dict[str, Any], optimizer: str, instead: str = "a dense gradient") -> list[Tensor]:
    """Of one group, in order.

    Raises:
        RuntimeError: a gradient is sparse.
    """
    found = [parameter for parameter in group["params"] if parameter.grad is not None]
    for parameter in found:
        if parameter.grad.is_sparse:
            raise RuntimeError(f"{optimizer} does not support sparse gradients; use {instead}")
    return found


def on_card(value: float, like: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """A number as a tensor of one element beside `like`: a new value then makes no new recipe."""
    return torch.tensor([float(value)], dtype=dtype).to(like.device, non_blocking=True)


def moment_dtypes(moments: Any, parameter: torch.dtype) -> tuple[torch.dtype, torch.dtype]:
    """Dtypes of both moments from `moments_dtype`: None (the parameter's), one, or two."""
    if moments is None:
        return parameter, parameter
    return moments if isinstance(moments, tuple) else (moments, moments)


def in_fp8(moments: Any) -> bool:
    """Whether either moment has 8 bits, and so a scale."""
    chosen = moments if isinstance(moments, tuple) else (moments,)
    return any(dtype in (torch.float8_e4m3fn, torch.float8_e5m2) for dtype in chosen)
