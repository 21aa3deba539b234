"""The functions that the bridge's own module of this name exports, over `torch.ops.hpu`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

fused_norm = torch.ops.hpu.fused_norm_
fused_ema = torch.ops.hpu.optimizer_ema
fused_adagrad = torch.ops.hpu.optimizer_adagrad
fused_lars = torch.ops.hpu.optimizer_lars
optimizer_sgd = torch.ops.hpu.optimizer_sgd
optimizer_sgd_momentum = torch.ops.hpu.optimizer_sgd_momentum
sparse_adagrad_with_valid_count = torch.ops.hpu.habanaOptimizerSparseAdagrad
embedding_bag_sum_fwd = torch.ops.hpu.embedding_bag_sum
embedding_bag_sum_bwd = torch.ops.hpu.embedding_bag_sum_bwd_out
roi_align_forward = torch.ops.hpu.roi_align_fwd
roi_align_backward = torch.ops.hpu.roi_align_bwd
random_seed = torch.ops.hpu.habana_random_seed
expand_into_jagged_permute = torch.ops.hpu.habana_expand_into_jagged_permute
bounds_check_indices = torch.ops.hpu.habana_bounds_check_indices
split_permute_cat = torch.ops.hpu.habana_split_permute_cat


def embedding_bag_preproc(indices: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor, Tensor, int]:
    """What the backward of an embedding bag goes by: which bags used each row.

    Returns (rows that were used, in order; bags row after row; where each row's bags begin, and the end; number of rows),
    as int32 on the host.
    """
    rows, bounds = indices.cpu().long(), offsets.cpu().long()
    bags = torch.repeat_interleave(torch.arange(len(bounds) - 1), bounds.diff())
    order = rows.argsort(stable=True)
    unique, counts = torch.unique_consecutive(rows[order], return_counts=True)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    return unique.int(), bags[order].int(), starts.int(), len(unique)


def sparse_sgd_with_valid_count(
    gradients: Tensor, weights: Tensor, moments: Tensor, indices: Tensor, lr: Tensor, valid_count: Tensor
) -> tuple[Tensor, Tensor]:
    """SGD without momentum on the rows that `indices` names."""
    return torch.ops.hpu.habanaOptimizerSparseSgd(gradients, weights, moments, indices, lr, valid_count, 0.0, False)


def permute_1D_sparse_data(permute: Tensor, lengths: Tensor, indices: Tensor, weights: Tensor | None) -> list[Tensor]:
    """(lengths, indices[, weights]) with the segments in another order."""
    return _permute("1D", permute, lengths, indices, weights)


def permute_2D_sparse_data(permute: Tensor, lengths: Tensor, indices: Tensor, weights: Tensor | None) -> list[Tensor]:
    """The same for lengths of shape (features, batch)."""
    return _permute("2D", permute, lengths, indices, weights)


def _permute(kind: str, permute: Tensor, lengths: Tensor, indices: Tensor, weights: Tensor | None) -> list[Tensor]:
    name = f"habana_permute_{kind}_sparse_data" + ("_without_weights" if weights is None else "")
    arguments = (permute, lengths, indices) if weights is None else (permute, lengths, indices, weights)
    return list(getattr(torch.ops.hpu, name)(*arguments))


def matmul_ex(self: Tensor, other: Tensor, dtype: torch.dtype) -> Tensor:
    """A matrix product with a result of another dtype."""
    return torch.matmul(self, other).to(dtype)


def matmul_ex_backward(grad_output: Tensor, self: Tensor, other: Tensor, dtype: torch.dtype) -> tuple[Any, ...]:
    """Gradients of both factors, of that dtype."""
    return tuple(grad.to(dtype) for grad in torch.ops.hpu.matmul_bwd(grad_output, self, other))


__all__ = [
    "bounds_check_indices",
    "embedding_bag_preproc",
    "embedding_bag_sum_bwd",
    "embedding_bag_sum_fwd",
    "expand_into_jagged_permute",
    "fused_adagrad",
    "fused_ema",
    "fused_lars",
    "fused_norm",
    "matmul_ex",
    "matmul_ex_backward",
    "optimizer_sgd",
    "optimizer_sgd_momentum",
    "permute_1D_sparse_data",
    "permute_2D_sparse_data",
    "random_seed",
    "roi_align_backward",
    "roi_align_forward",
    "sparse_adagrad_with_valid_count",
    "sparse_sgd_with_valid_count",
    "split_permute_cat",
]
