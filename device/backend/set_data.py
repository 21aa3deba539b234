"""What becomes of a tensor's own memory: `tensor.data = other` between host and card, and results that are resized.

The real device's tensors are among those that PyTorch lets take each other's place, like CUDA's and the host's;
tensors of a device outside PyTorch are not. It decides what `Module.to` does: parameters stay the objects that an
optimizer, a hook or `fully_shard` already holds, and only their data moves.
"""

from __future__ import annotations

import torch
from torch import Tensor

_DEVICES = ("cpu", "hpu")


def _can_take_the_place(tensor: Tensor, other: Tensor) -> bool:
    return all(one.layout == torch.strided and one.device.type in _DEVICES for one in (tensor, other))


def _resize_output(tensor: Tensor, size: list[int], device: torch.device) -> Tensor:
    return tensor.resize_(size)


def register() -> torch.library.Library:
    """Register both; the library must be kept alive."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("_has_compatible_shallow_copy_type", _can_take_the_place, "PrivateUse1")
    library.impl("_resize_output_", _resize_output, "PrivateUse1")
    return library
