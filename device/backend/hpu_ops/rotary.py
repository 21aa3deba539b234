"""Rotary position embedding: pairs of elements of a row turned by the angle of its position.

    out = x cos + turned(x) sin        turned: (x1, x2) -> (-x2, x1)

`BLOCKWISE` (0) pairs element i with i + E/2, `PAIRWISE` (1) with its neighbour. Without `position_ids`, `offset` numbers at
the front of the last dimension of sin and cos are passed over. With them, sin and cos have a row for each position (all
other dimensions but the last are 1), and x (batch, heads, sequence, E) takes row `position_ids[batch, sequence]`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .registry import Registry, like

BLOCKWISE, PAIRWISE = 0, 1


def turned(x: Tensor, mode: int) -> Tensor:
    """The partner of each element, the first of a pair negated."""
    if mode == PAIRWISE:
        return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def turned_back(x: Tensor, mode: int) -> Tensor:
    """The transpose of `turned`."""
    return -turned(x, mode)


def factors(x: Tensor, sin: Tensor, cos: Tensor, position_ids: Tensor | None, offset: int) -> tuple[Tensor, Tensor]:
    """(sin, cos) as they multiply x; float32.

    Raises:
        RuntimeError: they do not fit x.
    """
    picked = []
    for table in (sin, cos):
        if position_ids is not None:
            rows = table.reshape(-1, table.shape[-1])[position_ids.long()]
            picked.append((rows.unsqueeze(1) if x.dim() == rows.dim() + 1 else rows).float())
        else:
            picked.append((table[..., offset : offset + x.shape[-1]] if offset else table).float())
    return picked[0], picked[1]


def _check(x: Tensor, mode: int) -> None:
    if mode not in (BLOCKWISE, PAIRWISE):
        raise RuntimeError(f"hpu::rotary_pos_embedding: mode must be 0 (BLOCKWISE) or 1 (PAIRWISE); got {mode}")
    if x.shape[-1] % 2:
        raise RuntimeError(f"hpu::rotary_pos_embedding: the last dimension must be even; x has {list(x.shape)}")


def embed(x: Tensor, sin: Tensor, cos: Tensor, position_ids: Tensor | None, offset: int, mode: int) -> Tensor:
    """rotary_pos_embedding."""
    _check(x, mode)
    s, c = factors(x, sin, cos, position_ids, offset)
    wide = x.float()
    return (wide * c + turned(wide, mode) * s).to(x.dtype)


def unembed(grad: Tensor, sin: Tensor, cos: Tensor, position_ids: Tensor | None, offset: int, mode: int) -> Tensor:
    """rotary_pos_embedding_backward: the gradient of x."""
    _check(grad, mode)
    s, c = factors(grad, sin, cos, position_ids, offset)
    wide = grad.float()
    return (wide * c + turned_back(wide * s, mode)).to(grad.dtype)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, sin, cos, position_ids, ctx.offset, ctx.mode = inputs
    ctx.save_for_backward(sin, cos, position_ids)


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    sin, cos, position_ids = ctx.saved_tensors
    of_input = torch.ops.hpu.rotary_pos_embedding_backward(grad, sin, cos, position_ids, ctx.offset, ctx.mode)
    return of_input, None, None, None, None, None


def register(registry: Registry) -> None:
    """rotary_pos_embedding and its backward. Gradients of sin and cos are not computed: they are tables."""
    rest = "Tensor sin, Tensor cos, Tensor? position_ids, int offset, int mode) -> Tensor"
    name = registry.operator(f"rotary_pos_embedding(Tensor input, {rest}", embed, like)
    registry.operator(f"rotary_pos_embedding_backward(Tensor grad_in, {rest}", unembed, like)
    registry.gradient(name, _save, _differentiate)
