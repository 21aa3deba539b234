"""`_add_relu` as the card computes it: the product, the sum and the maximum each in the operands' own type.

CPU PyTorch has one kernel for all three, for float32 only, which would round once.
"""

from __future__ import annotations

import torch
from torch import Tensor

Number = float | Tensor


def add_relu(self: Tensor, other: Number, alpha: float = 1) -> Tensor:
    """max(self + alpha x other, 0)."""
    scaled = other if alpha == 1 else other * alpha
    return torch.relu(self + scaled)


def add_relu_(self: Tensor, other: Number, alpha: float = 1) -> Tensor:
    """`add_relu` into `self`."""
    return self.copy_(add_relu(self, other, alpha))


def add_relu_out(self: Tensor, other: Tensor, *, alpha: float = 1, out: Tensor) -> Tensor:
    """`add_relu` into `out`."""
    return out.resize_(torch.broadcast_shapes(self.shape, other.shape)).copy_(add_relu(self, other, alpha))


def register() -> torch.library.Library:
    """Install the operator for hpu; the library must be kept alive."""
    library = torch.library.Library("aten", "IMPL")
    for overload in ("Tensor", "Scalar"):
        library.impl(f"_add_relu.{overload}", add_relu, "PrivateUse1")
        library.impl(f"_add_relu_.{overload}", add_relu_, "PrivateUse1")
    library.impl("_add_relu.out", add_relu_out, "PrivateUse1")
    return library
