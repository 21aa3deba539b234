"""Scaled dot-product attention, its plain formula: softmax(q k^T x scale + mask) v, forward and backward.

Queries (..., L, E), keys (..., S, E) and values (..., S, V) broadcast over their leading dimensions. The mask is true
where attention is allowed, or a number that is added. `is_causal` allows keys up to the query's own position, counted
from the top left. With `valid_seq_len` (one length for each index of dimension 0) only the last (`left` padding) or
first (`right`) so many keys exist. A query that may look at nothing gives zeros. Sums are taken in float32.

Rows of queries are independent, so they are worked off in parts that keep the scores small; only what the operator has
to return is ever there whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

PART = 1 << 24  # scores in memory at a time

Parts = tuple[slice, Tensor]


@dataclass(frozen=True)
class Setting:
    """What the scores depend on besides queries and keys. `fast`: probabilities in bfloat16, as the card's shorter
    exponential gives them.
    """

    mask: Tensor | None
    scale: float
    is_causal: bool
    fast: bool = False
    valid: Tensor | None = None
    padding: str = "left"

    def scores(self, q: Tensor, k: Tensor, rows: slice) -> Tensor:
        """Of the queries `rows`, float32; -inf where attention is not allowed."""
        result = torch.matmul(q[..., rows, :], k.transpose(-2, -1)) * self.scale
        if self.mask is not None:
            mask = self.mask if self.mask.shape[-2] == 1 else self.mask[..., rows, :]
            result = result.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else result + mask.float()
        keys = torch.arange(k.shape[-2])
        if self.is_causal:
            queries = torch.arange(rows.start, rows.stop)
            result = result.masked_fill(keys > queries[:, None], -math.inf)
        if self.valid is not None:
            lengths = self.valid.reshape(-1, *[1] * (result.dim() - 1))
            absent = keys < k.shape[-2] - lengths if self.padding == "left" else keys >= lengths
            result = result.masked_fill(absent, -math.inf)
        return result

    def probabilities(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(probabilities, largest score of each row, 1 / sum of exponentials)."""
        top = scores.amax(-1, keepdim=True)
        top = top.masked_fill(top == -math.inf, 0.0)
        exponentials = (scores - top).exp()
        total = exponentials.sum(-1, keepdim=True)
        inverse = torch.where(total > 0, total.reciprocal(), torch.zeros_like(total))
        result = exponentials * inverse
        return (result.bfloat16().float() if self.fast else result), top, inverse


def leading(*tensors: Tensor) -> torch.Size:
    """The common leading dimensions."""
    return torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in tensors))


def parts(q: Tensor, k: Tensor) -> Iterator[slice]:
    """Rows of queries whose scores fit in `PART`."""
    queries, keys = q.shape[-2], k.shape[-2]
    row = max(1, math.prod(leading(q, k)) * keys)
    step = max(1, PART // row)
    for start in range(0, queries, step):
        yield slice(start, min(start + step, queries))


def kept(shape: torch.Size, p: float, generator: torch.Generator | None) -> Tensor:
    """A dropout mask: 1 where a probability is kept."""
    return (torch.rand(shape, generator=generator) >= p).to(torch.int8)


def scale_of_kept(p: float) -> float:
    return 0.0 if p >= 1.0 else 1.0 / (1.0 - p)


def folded(gradient: Tensor, like: Tensor) -> Tensor:
    """A gradient summed over the dimensions along which its tensor was repeated."""
    return gradient.sum_to_size(like.shape)


def gradients(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, probabilities: Tensor, dropped: Tensor, rows: slice, scale: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(of the queries `rows`, of all keys, of all values, of the scores) through these rows.

    `dropped`: what multiplies the probabilities after the softmax.
    """
    part = grad[..., rows, :]
    of_v = torch.matmul((probabilities * dropped).transpose(-2, -1), part)
    of_p = torch.matmul(part, v.transpose(-2, -1)) * dropped
    of_s = probabilities * (of_p - (of_p * probabilities).sum(-1, keepdim=True))
    of_q = torch.matmul(of_s, k) * scale
    of_k = torch.matmul(of_s.transpose(-2, -1), q[..., rows, :]) * scale
    return of_q, of_k, of_v, of_s
