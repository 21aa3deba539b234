"""Mixture of experts: each token through the experts that the router chose for it, weighted and summed.

    expert(x) = (activation(x w1) * (x w2)) w3

`w12` holds w1 and w2 side by side. `permuted_weights`: weights lie as in nn.Linear, output dimension first. Of the experts
`experts_min` to `experts_max` (inclusive) the weights are given, in that order; choices of others add nothing here.
Forms with 8-bit floats take scales that undo the casts: of the hidden states, of what goes into the last product, and of
the weights; `block_size` instead scales square blocks of the weights, with hidden states in a wide type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .fp8_format import is_fp8, largest, round_to

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": torch.nn.functional.gelu,
    "relu": torch.nn.functional.relu,
    "silu": torch.nn.functional.silu,
}


@dataclass(frozen=True)
class Experts:
    """The weights as matrices (input, output) in float32, and what goes between the products."""

    gates: Sequence[Tensor]
    ups: Sequence[Tensor]
    downs: Sequence[Tensor]
    activation: str
    first: int
    squeeze: Callable[[int, Tensor], Tensor] | None = None  # rounding of what goes into the last product

    def hidden(self, number: int, states: Tensor) -> Tensor:
        """What goes into the last product of an expert."""
        return ACTIVATIONS[self.activation](states @ self.gates[number]) * (states @ self.ups[number])

    def of(self, states: Tensor, table: Tensor, weights: Tensor) -> Tensor:
        """Weighted sum over each token's experts; states (tokens, hidden) in float32."""
        result = torch.zeros_like(states)
        chosen = table.reshape(states.shape[0], -1).long()
        shares = weights.reshape(chosen.shape).float()
        for number in range(len(self.downs)):
            tokens, place = torch.where(chosen == number + self.first)
            if tokens.numel() == 0:
                continue
            inside = self.hidden(number, states[tokens])
            if self.squeeze is not None:
                inside = self.squeeze(number, inside)
            result = result.index_add(0, tokens, (inside @ self.downs[number]) * shares[tokens, place, None])
        return result

    def measured(self, states: Tensor) -> Tensor:
        """The largest value that goes into the last product of each expert, over all tokens."""
        return torch.stack([self.hidden(number, states).amax() for number in range(len(self.downs))])


def check(activation: str, experts_min: int, experts_max: int, *lists: Sequence[Tensor]) -> None:
    """Whether the experts are described consistently.

    Raises:
        RuntimeError: they are not.
    """
    where = "hpu::mixture_of_experts"
    if activation not in ACTIVATIONS:
        raise RuntimeError(f'{where}: Activation "{activation}" is not one of {", ".join(ACTIVATIONS)}')
    wanted = experts_max - experts_min + 1
    for weights in lists:
        if len(weights) != wanted:
            raise RuntimeError(
                f"{where}: experts_min={experts_min} and experts_max={experts_max} (inclusive) are {wanted} experts, "
                f"but there are weights of {len(weights)}"
            )


def as_matrix(weight: Tensor, permuted: bool) -> Tensor:
    """(input, output) in float32."""
    return (weight.t() if permuted else weight).float()


def halves(fused: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """w1 and w2 of matrices that hold both."""
    pairs = [weight.chunk(2, -1) for weight in fused]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def rounding(dtype: torch.dtype, scales: Sequence[Any] | None) -> Callable[[int, Tensor], Tensor]:
    """Rounding to an 8-bit format and back: by the given scale of the expert, or by the largest value of each token."""

    def squeeze(number: int, inside: Tensor) -> Tensor:
        if scales is None:
            amax = inside.abs().amax(-1, keepdim=True)
            scale = torch.where(amax > 0, amax / largest(dtype), torch.ones_like(amax))
        else:
            scale = torch.as_tensor(scales[number], dtype=torch.float32)
        return round_to(inside / scale, dtype).float() * scale

    return squeeze


def wide_dtype(hidden_states: Tensor) -> torch.dtype:
    """Of the result."""
    return torch.bfloat16 if is_fp8(hidden_states.dtype) else hidden_states.dtype
