"""Grouped queries: several heads of queries share one of keys and values.

The operators broadcast, so queries (batch, heads, length, E) become (batch, groups, heads per group, length, E), keys and
values get a dimension of 1 there, and nothing is repeated in memory. A single head of keys broadcasts as it is.
"""

from __future__ import annotations

from torch import Tensor


def is_grouped(q: Tensor, k: Tensor) -> bool:
    """Whether there are fewer heads of keys than of queries, but more than one.

    Raises:
        ValueError: the heads of queries cannot be divided among those of keys.
    """
    if q.dim() != 4 or q.shape[1] == k.shape[1] or k.shape[1] == 1:
        return False
    if q.shape[1] % k.shape[1]:
        raise ValueError(
            f"{q.shape[1]} heads of queries cannot share {k.shape[1]} heads of keys; use a divisor of {q.shape[1]}"
        )
    return True


def grouped(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """(queries, keys, values, mask) with five dimensions."""
    groups = k.shape[1]
    if mask is not None:
        while mask.dim() < 4:
            mask = mask.unsqueeze(0)
        whole = mask.shape[1] == q.shape[1]
        mask = mask.unflatten(1, (groups, -1)) if whole and q.shape[1] > 1 else mask.unsqueeze(1)
    return q.unflatten(1, (groups, -1)), k.unsqueeze(2), v.unsqueeze(2), mask


def gqa_output_reshape(tensor: Tensor) -> Tensor:
    """(batch, groups, heads per group, length, E) back to (batch, heads, length, E)."""
    return tensor.flatten(1, 2)
