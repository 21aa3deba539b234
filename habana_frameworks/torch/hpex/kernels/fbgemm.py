"""Functions of fbgemm_gpu that torchrec calls, for hpu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ... import _hpex_C

SUM = 0  # fbgemm's PoolingMode


def permute_1D_sparse_data(
    permute: Tensor, lengths: Tensor, indices: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Segments in another order: (lengths, indices, weights or None)."""
    found = _hpex_C.permute_1D_sparse_data(permute, lengths, indices, weights)
    return found[0], found[1], found[2] if len(found) == 3 else None


def permute_2D_sparse_data(
    permute: Tensor, lengths: Tensor, indices: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The same for lengths of shape (features, batch)."""
    found = _hpex_C.permute_2D_sparse_data(permute, lengths, indices, weights)
    return found[0], found[1], found[2] if len(found) == 3 else None


def split_embedding_codegen_lookup_function(
    host_weights: Tensor,
    weights_offsets: Sequence[int],
    D_offsets: Sequence[int],
    total_D: int,
    indices: Tensor,
    offsets: Tensor,
    pooling_mode: int,
    kernel_mode: Sequence[int] | None = None,
) -> Tensor:
    """Sums of rows from tables that lie behind one another in `host_weights`: (batch, total_D).

    Args:
        weights_offsets: where each table begins, in elements.
        D_offsets: columns of the result before each table's, and their total; all tables are equally wide.
        indices, offsets: rows of all tables, and where each bag begins, table by table.
        pooling_mode: 0, sums; nothing else is supported.
        kernel_mode: for each table 1, or 0 where each bag has one row.

    Raises:
        ValueError: another mode, or tables of different widths.
    """
    if pooling_mode != SUM:
        raise ValueError(f"Only PoolingMode.SUM (0) is supported for HPU; got {pooling_mode}")
    if total_D != D_offsets[-1]:
        raise ValueError(f"total_D ({total_D}) must match D_offsets[-1] ({D_offsets[-1]})")
    widths = {end - start for start, end in zip(D_offsets, D_offsets[1:], strict=False)}
    if len(widths) != 1:
        raise ValueError(f"HPU supports only constant D_offsets' distances, but they are {sorted(widths)}")
    width, tables = widths.pop(), len(D_offsets) - 1
    batch = (offsets.numel() - 1) // tables
    rows = host_weights.reshape(-1, width)
    ends = [*weights_offsets[1:tables], host_weights.numel()]
    indices, offsets = indices.to(torch.int32), offsets.to(torch.int32)
    outputs = []
    for table in range(tables):
        weights = rows[weights_offsets[table] // width : ends[table] // width]
        bags = offsets[table * batch : (table + 1) * batch + 1]
        mode = 1 if kernel_mode is None else kernel_mode[table]
        chosen = indices if mode else indices[table * batch : (table + 1) * batch]
        count = torch.tensor([chosen.numel(), bags.numel()], dtype=torch.int32).to(host_weights.device)
        outputs.append(_hpex_C.embedding_bag_sum_fwd(weights, chosen, bags, count, mode))
    return torch.cat(outputs, 1)


def split_embedding_codegen_lookup_sgd_function_hpu(
    host_weights: Tensor,
    weights_placements: Tensor,
    weights_offsets: Sequence[int],
    D_offsets: Sequence[int],
    total_D: int,
    max_D: int,
    hash_size_cumsum: Tensor,
    total_hash_size_bits: int,
    indices: Tensor,
    offsets: Tensor,
    pooling_mode: int,
    *rest: Any,
    **options: Any,
) -> Tensor:
    """The look-up; updates of the weights are the optimizer's."""
    return split_embedding_codegen_lookup_function(
        host_weights, weights_offsets, D_offsets, total_D, indices, offsets, pooling_mode
    )


split_embedding_codegen_lookup_adagrad_function_hpu = split_embedding_codegen_lookup_sgd_function_hpu


def expand_into_jagged_permute(
    permute: Tensor, input_offsets: Tensor, output_offsets: Tensor, output_size: int
) -> Tensor:
    """Where each value of the permuted segments comes from."""
    return _hpex_C.expand_into_jagged_permute(permute, input_offsets, output_offsets, output_size)


def bounds_check_indices(
    rows_per_table: Tensor,
    indices: Tensor,
    offsets: Tensor,
    bounds_check_mode: int,
    warning: Tensor,
    weights: Tensor | None,
) -> None:
    """Mend indices and offsets out of bounds in place; mode 0 raises, 1 counts, 2 only mends, 3 does nothing."""
    _hpex_C.bounds_check_indices(indices, offsets, warning, rows_per_table, bounds_check_mode, weights)


def split_permute_cat(input: Tensor, indices: Tensor, batch_size: int, num_features: int, dims: int) -> Tensor:
    """The features of (batch, features x dims) in another order."""
    return _hpex_C.split_permute_cat(input, indices, batch_size, num_features, dims)
