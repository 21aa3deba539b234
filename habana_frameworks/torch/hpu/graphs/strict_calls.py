"""Calls of captured modules under the strict switch: whose values the caller's tensors have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from device.backend.overwritten import overwritten

from .containers import map_values, same_window


def refuse_overwritten(inputs: Iterable[torch.Tensor]) -> None:
    """Raises StrictError: one of them has been overwritten since the caller got it."""
    for tensor in inputs:
        overwritten.refuse(tensor, "a call")


def keep(tensors: Iterable[torch.Tensor], owner: str) -> None:
    """The caller has these, over memory that later calls of `owner` overwrite."""
    for tensor in tensors:
        if tensor.device.type == "hpu":
            overwritten.hand_out(tensor, owner)


def handed_out(outputs: Any, owner: str) -> Any:
    """The outputs over the same memory as tensors of this call."""

    def own(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        tensor = value.view_as(value) if value.requires_grad else value.detach()
        keep([tensor], owner)
        return tensor

    return map_values(outputs, own)


def overwrite(memory: Sequence[torch.Tensor], given: Sequence[torch.Tensor] = ()) -> None:
    """A replay has put its values there; `given`: from these, of which one that lies there itself changes nothing."""
    for index, tensor in enumerate(memory):
        if not given or not same_window(tensor, given[index]):
            overwritten.overwrite(tensor)
