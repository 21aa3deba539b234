"""Embedding bags and the sparse optimizers that go with them.

A bag's result is the sum of the rows of `input` that `indices` names from its offset up to the next one. `valid_count` holds
the numbers of indices and of offsets that count (the rest is padding). Kernel mode 0 takes rows as they are, one for each
index. The sparse updates change the rows that `indices` names by the first `valid_count` gradients.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .registry import Registry, same


def _bags(offsets: Tensor, valid_count: Tensor) -> Tensor:
    counts = [int(count) for count in valid_count.reshape(-1)]
    return offsets.reshape(-1)[: counts[-1]].long() if counts else offsets.reshape(-1).long()


def bag_sum(input: Tensor, indices: Tensor, offsets: Tensor, valid_count: Tensor, kernel_mode: int) -> Tensor:
    """embedding_bag_sum: (bags, columns); the last offset is the end of the last bag. Mode 0: one row per index."""
    rows = indices.reshape(-1).long()
    if kernel_mode == 0:
        result = input[rows].clone()
        result[int(valid_count.reshape(-1)[0]) :] = 0
        return result
    bounds = offsets.reshape(-1).long()
    summed = torch.zeros(len(bounds) - 1, input.shape[1], dtype=torch.float32)
    for bag in range(len(bounds) - 1):
        summed[bag] = input[rows[bounds[bag] : bounds[bag + 1]]].float().sum(0)
    return summed.to(input.dtype)


def _bag_sum_shapes(input: Tensor, indices: Tensor, offsets: Tensor, valid_count: Tensor, kernel_mode: int) -> Tensor:
    if kernel_mode not in (0, 1, 2):
        raise RuntimeError(f"hpu::embedding_bag_sum: kernel_mode must be 0, 1 or 2; got {kernel_mode}")
    return input.new_empty((offsets.numel() - 1 if kernel_mode else indices.numel(), input.shape[1]))


def bag_sum_backward(
    out: Tensor, input: Tensor, indices_bwd: Tensor, offsets_bwd: Tensor, valid_count_bwd: Tensor, kernel_mode: int
) -> Tensor:
    """embedding_bag_sum_bwd_out: `out[i]` is the sum of the gradients (`input`) of the bags that used row i."""
    bounds, bags = _bags(offsets_bwd, valid_count_bwd), indices_bwd.reshape(-1).long()
    for row in range(min(len(bounds) - 1, out.shape[0])):
        out[row] = input[bags[bounds[row] : bounds[row + 1]]].float().sum(0).to(out.dtype)
    return out


def _valid(gradients: Tensor, indices: Tensor, valid_count: Tensor) -> tuple[Tensor, Tensor]:
    count = int(valid_count.reshape(-1)[0])
    return gradients[:count].float(), indices.reshape(-1)[:count].long()


def sparse_sgd(
    gradients: Tensor,
    weights_in: Tensor,
    moments_in: Tensor,
    indices: Tensor,
    learning_rate: Tensor,
    valid_count_tensor: Tensor,
    mom: float,
    nesterov: bool,
) -> tuple[Tensor, Tensor]:
    """optimizer_sparse_sgd: w <- w - lr m with m <- mom m + g, in the named rows."""
    slope, rows = _valid(gradients, indices, valid_count_tensor)
    moving = moments_in[rows].float() * mom + slope
    moments_in[rows] = moving.to(moments_in.dtype)
    change = slope + mom * moving if nesterov else moving
    weights_in[rows] = (weights_in[rows].float() - learning_rate.float() * change).to(weights_in.dtype)
    return weights_in, moments_in


def sparse_adagrad(
    gradients: Tensor,
    weights_in: Tensor,
    moments_in: Tensor,
    indices: Tensor,
    learning_rate: Tensor,
    valid_count_tensor: Tensor,
) -> tuple[Tensor, Tensor]:
    """optimizer_sparse_adagrad: w <- w - lr g / (sqrt(s) + 1e-10) with s <- s + g^2, in the named rows."""
    slope, rows = _valid(gradients, indices, valid_count_tensor)
    total = moments_in[rows].float() + slope * slope
    moments_in[rows] = total.to(moments_in.dtype)
    step = learning_rate.float() * slope / (total.sqrt() + 1e-10)
    weights_in[rows] = (weights_in[rows].float() - step).to(weights_in.dtype)
    return weights_in, moments_in


def _two(gradients: Tensor, weights_in: Tensor, moments_in: Tensor, *rest: object) -> tuple[Tensor, Tensor]:
    return weights_in, moments_in


def register(registry: Registry) -> None:
    """embedding_bag_sum and its backward, optimizer_sparse_sgd, optimizer_sparse_adagrad."""
    registry.operator(
        "embedding_bag_sum(Tensor input, Tensor indices, Tensor offsets, Tensor valid_count, int kernel_mode) -> Tensor",
        bag_sum,
        _bag_sum_shapes,
    )
    registry.operator(
        "embedding_bag_sum_bwd_out(Tensor(a!) out, Tensor input, Tensor indices_bwd, Tensor offsets_bwd, "
        "Tensor valid_count_bwd, int kernel_mode) -> Tensor(a!)",
        bag_sum_backward,
        same,
    )
    tensors = "Tensor gradients, Tensor(a!) weights_in, Tensor(b!) moments_in, Tensor indices, Tensor learning_rate, "
    results = "-> (Tensor(a!), Tensor(b!))"
    registry.operator(
        f"habanaOptimizerSparseSgd({tensors}Tensor valid_count_tensor, float mom, bool nesterov) {results}",
        sparse_sgd,
        _two,
    )
    registry.operator(
        f"habanaOptimizerSparseAdagrad({tensors}Tensor valid_count_tensor) {results}", sparse_adagrad, _two
    )
