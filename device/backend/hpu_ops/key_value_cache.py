"""Reordering of key-value caches after a step of beam search.

The cache is (batch, 4 beams, ..., sequence, E). Of each batch element the positions start <= i < end of beam b are replaced
by those of the beam that its number in `beam_idx` names: one byte per batch element, two bits per beam, the first beam in
the highest bits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .registry import Registry, like, same

BEAMS = 4


def beams_of(packed: Tensor) -> Tensor:
    """(batch, 4) numbers of beams."""
    return (packed.reshape(-1, 1).to(torch.int64) >> torch.tensor([6, 4, 2, 0])) & 3


def reorder(self: Tensor, start: Tensor, end: Tensor, beam_idx: Tensor) -> Tensor:
    """kv_reorder_."""
    if self.shape[1] != BEAMS:
        raise RuntimeError(f"hpu::kv_reorder: dimension 1 must be {BEAMS} beams; the cache has {list(self.shape)}")
    chosen = beams_of(beam_idx)
    for element, (first, last) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        part = self[element].narrow(-2, first, last - first)
        part.copy_(part.index_select(0, chosen[element]))
    return self


def reordered(self: Tensor, start: Tensor, end: Tensor, beam_idx: Tensor) -> Tensor:
    """kv_reorder."""
    return reorder(self.clone(memory_format=torch.contiguous_format), start, end, beam_idx)


def register(registry: Registry) -> None:
    """kv_reorder and kv_reorder_."""
    rest = "Tensor start, Tensor end, Tensor beam_idx)"
    registry.operator(f"kv_reorder(Tensor self, {rest} -> Tensor", reordered, like)
    registry.operator(f"kv_reorder_(Tensor(a!) self, {rest} -> Tensor(a!)", reorder, same)
    registry.functionalize("kv_reorder_", "kv_reorder")
