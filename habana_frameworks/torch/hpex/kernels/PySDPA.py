"""Attention written out in products and softmax, which the compiler may cut into slices itself."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def _flat(tensor: Tensor, slices: int) -> tuple[Tensor, ...]:
    return torch.tensor_split(tensor.flatten(end_dim=1), slices)


def _scores(q: Tensor, k: Tensor) -> Tensor:
    return torch.matmul(q, k.transpose(-2, -1))


class PySDPA(torch.autograd.Function):
    """`PySDPA.apply(q, k, v, is_causal=False, with_slice=False)` for (batch, heads, length, E).

    `with_slice`: each head of each batch element by itself, which keeps the scores small.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False, with_slice: bool = False) -> Tensor:
        if q.dim() != 4:
            raise ValueError(f"PySDPA takes 4 dimensions (batch, heads, length, E); q has {q.dim()}")
        scale, slices = 1 / math.sqrt(q.size(-1)), (q.shape[0] * q.shape[1] if with_slice else 1)
        outputs, kept = [], []
        for query, key, value in zip(_flat(q, slices), _flat(k, slices), _flat(v, slices), strict=True):
            if is_causal:
                weights, *statistics = torch.ops.hpu.scaled_triangular_softmax_retain(_scores(query, key), scale)
                kept.append(statistics)
            else:
                weights = torch.softmax(_scores(query, key) * scale, -1)
            outputs.append(torch.matmul(weights, value))
        ctx.settings = is_causal, slices, scale
        ctx.save_for_backward(q, k, v, *(statistic for pair in kept for statistic in pair))
        return torch.cat(outputs).reshape(*q.shape[:-1], v.shape[-1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        is_causal, slices, scale = ctx.settings
        q, k, v, *kept = ctx.saved_tensors
        found: list[list[Tensor]] = [[], [], []]
        parts = zip(_flat(q, slices), _flat(k, slices), _flat(v, slices), _flat(grad, slices), strict=True)
        for number, (query, key, value, slope) in enumerate(parts):
            scores = _scores(query, key)
            if is_causal:
                statistics = kept[2 * number : 2 * number + 2]
                weights = torch.ops.hpu.scaled_triangular_softmax(scores, scale, *statistics)
            else:
                weights = torch.softmax(scores * scale, -1)
            of_scores = torch._softmax_backward_data(_scores(slope, value), weights, -1, weights.dtype)
            found[0].append(torch.matmul(of_scores, key) * scale)
            found[1].append(torch.matmul(of_scores.transpose(-2, -1), query) * scale)
            found[2].append(torch.matmul(weights.transpose(-2, -1), slope))
        shaped = [torch.cat(part).reshape_as(tensor) for part, tensor in zip(found, (q, k, v), strict=True)]
        return *shaped, None, None


class PySDPAHinted(PySDPA):
    """The same in slices; on the card hints tell the compiler to keep their order."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False, with_slice: bool = True) -> Tensor:
        return PySDPA.forward(ctx, q, k, v, is_causal, True)
