"""Arguments of operators: copies of them on the host and on the card, and what tensors are in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Sample = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""First argument, further arguments, keyword arguments."""


def convert(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The value with every tensor in it changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        items = [convert(item, change) for item in value]
        if isinstance(value, list) or type(value) is tuple:
            return type(value)(items)
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, dict):
        return {key: convert(item, change) for key, item in value.items()}
    return value


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in a value, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [found for item in value for found in tensors(item)] if isinstance(value, (list, tuple)) else []


def copied(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """A leaf of the same sizes, strides and values in memory of its own."""
    source = tensor.detach()
    if source.layout is not torch.strided:
        return source.clone().to(device).requires_grad_(tensor.requires_grad)
    source = source.resolve_conj().resolve_neg()
    if source.numel() == 0:
        copy = torch.empty_strided(source.size(), source.stride(), dtype=source.dtype, device=device)
    else:
        reach = 1 + sum((size - 1) * stride for size, stride in zip(source.size(), source.stride(), strict=True))
        memory = source.as_strided((reach,), (1,)).clone().to(device)
        copy = memory.as_strided(source.size(), source.stride()).detach()
    return copy.requires_grad_(tensor.requires_grad)


def on_device(value: Any, device: str) -> Any:
    """A copy of the arguments whose tensors, and devices that they name, are on `device`."""
    if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
        return torch.device(device)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(on_device(item, device) for item in value)
    if isinstance(value, dict):
        return {key: on_device(item, device) for key, item in value.items()}
    return convert(value, lambda tensor: copied(tensor, device))


def as_the_card_holds(value: Any) -> Any:
    """The arguments with float64 values that are float32 values: what the card keeps of them."""
    return convert(value, lambda tensor: _rounded(tensor) if tensor.dtype == torch.float64 else tensor)


def _rounded(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout is not torch.strided:
        return tensor
    copy = copied(tensor, "cpu").detach()
    if copy.numel():
        reach = 1 + sum((size - 1) * stride for size, stride in zip(copy.size(), copy.stride(), strict=True))
        memory = copy.as_strided((reach,), (1,))
        memory.copy_(memory.float())
    return copy.requires_grad_(tensor.requires_grad)


def in_float32(value: Any, instead_of: tuple[torch.dtype, ...]) -> Any:
    """The arguments with float32 in place of those dtypes."""
    if isinstance(value, torch.dtype):
        return torch.float32 if value in instead_of else value
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(in_float32(item, instead_of) for item in value)
    if isinstance(value, dict):
        return {key: in_float32(item, instead_of) for key, item in value.items()}
    return convert(value, lambda t: t.detach().float().requires_grad_(t.requires_grad) if t.dtype in instead_of else t)


def without_gradients(value: Any) -> Any:
    return convert(value, torch.Tensor.detach)
