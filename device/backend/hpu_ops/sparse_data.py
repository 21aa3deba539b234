"""Data of sparse features in the shape that fbgemm and torchrec keep them: lengths per feature and sample, values behind
one another.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .registry import Registry

FATAL, WARNING, IGNORE, NONE = range(4)


def _ends(lengths: Tensor) -> list[int]:
    return [0, *torch.cumsum(lengths.reshape(-1).long(), 0).tolist()]


def permute(
    permute: Tensor, lengths: Tensor, indices: Tensor, weights: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """habana_permute_1D_sparse_data, ..._2D_...: segments (rows of lengths) in another order, with their values."""
    order = permute.reshape(-1).long()
    chosen = lengths[order]
    ends, per_row = _ends(lengths), (lengths[0].numel() if lengths.dim() > 1 else 1)
    parts = [(ends[row * per_row], ends[(row + 1) * per_row]) for row in order.tolist()]

    def moved(values: Tensor) -> Tensor:
        pieces = [values[first:last] for first, last in parts]
        whole = torch.cat(pieces) if pieces else values[:0]
        result = torch.zeros_like(values)
        result[: whole.shape[0]] = whole
        return result

    return chosen, moved(indices), moved(indices if weights is None else weights)


def _permute_shapes(
    permute: Tensor, lengths: Tensor, indices: Tensor, weights: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    values = indices if weights is None else weights
    chosen = lengths.new_empty((permute.numel(), *lengths.shape[1:]))
    return chosen, indices.new_empty(indices.shape), values.new_empty(values.shape)


def _permute_two(permute_: Tensor, lengths: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    return permute(permute_, lengths, indices)[:2]


def _permute_two_shapes(permute: Tensor, lengths: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    return _permute_shapes(permute, lengths, indices)[:2]


def expand(permute: Tensor, input_offsets: Tensor, output_offsets: Tensor, output_size: int) -> Tensor:
    """habana_expand_into_jagged_permute: where each value of the permuted segments comes from."""
    result = torch.zeros(output_size, dtype=input_offsets.dtype)
    starts, places = input_offsets.tolist(), output_offsets.tolist()
    for number, row in enumerate(permute.tolist()):
        first, last = places[number], places[number + 1]
        result[first:last] = torch.arange(starts[row], starts[row] + last - first)
    return result


def _expand_shapes(permute: Tensor, input_offsets: Tensor, output_offsets: Tensor, output_size: int) -> Tensor:
    return input_offsets.new_empty(output_size)


def bounds_check(
    indices: Tensor,
    offsets: Tensor,
    warning: Tensor,
    rows_per_table: Tensor,
    bounds_check_mode: int,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """habana_bounds_check_indices: indices outside their table become 0, offsets outside the list its ends.

    Mode 0 raises on the first, 1 counts them in `warning`, 2 only mends, 3 does nothing.

    Raises:
        RuntimeError: in mode 0, an index or offset out of bounds.
    """
    if bounds_check_mode not in range(4):
        raise RuntimeError(f"bounds_check_indices: mode must be 0 to 3; got {bounds_check_mode}")
    if bounds_check_mode == NONE:
        return indices, offsets, warning
    tables, count = rows_per_table.tolist(), indices.numel()
    per_table = (offsets.numel() - 1) // len(tables)
    wrong = 0
    outside = (offsets < 0) | (offsets > count)
    outside[-1] |= offsets[-1] != count
    wrong += int(outside.sum())
    offsets.clamp_(0, count)
    offsets[-1] = count
    for table, rows in enumerate(tables):
        part = indices[int(offsets[table * per_table]) : int(offsets[(table + 1) * per_table])]
        bad = (part >= rows) | ((part < 0) & (part != -1))
        wrong += int(bad.sum())
        part[bad] = 0
    if wrong and bounds_check_mode == FATAL:
        raise RuntimeError(
            f"bounds_check_indices: {wrong} indices or offsets are out of bounds (tables of {tables} rows, {count} "
            "indices); mend the input, or use mode 1 or 2"
        )
    if wrong and bounds_check_mode == WARNING:
        warning += wrong
    return indices, offsets, warning


def _bounds_check_shapes(indices: Tensor, offsets: Tensor, warning: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    return indices, offsets, warning


def split_permute_cat(input: Tensor, indices: Tensor, batch_size: int, num_features: int, dims: int) -> Tensor:
    """habana_split_permute_cat: the features (of `dims` columns) of a (batch, features x dims) tensor in another order."""
    features = input.reshape(batch_size, num_features, dims)
    return features[:, indices.long()].reshape(batch_size, -1)


def _split_shapes(input: Tensor, indices: Tensor, batch_size: int, num_features: int, dims: int) -> Tensor:
    return input.new_empty((batch_size, indices.numel() * dims))


def register(registry: Registry) -> None:
    """The operators of hpex.kernels.fbgemm."""
    three = "Tensor permute, Tensor lengths, Tensor indices"
    for kind in ("1D", "2D"):
        registry.operator(
            f"habana_permute_{kind}_sparse_data({three}, Tensor? weights=None) -> (Tensor, Tensor, Tensor)",
            permute,
            _permute_shapes,
        )
        registry.operator(
            f"habana_permute_{kind}_sparse_data_without_weights({three}) -> (Tensor, Tensor)",
            _permute_two,
            _permute_two_shapes,
        )
    registry.operator(
        "habana_expand_into_jagged_permute(Tensor permute, Tensor input_offsets, Tensor output_offsets, "
        "int output_size) -> Tensor",
        expand,
        _expand_shapes,
    )
    registry.operator(
        "habana_bounds_check_indices(Tensor(a!) indices, Tensor(b!) offsets, Tensor(c!) warning, "
        "Tensor rows_per_table, int bounds_check_mode, Tensor? weights) -> (Tensor(a!), Tensor(b!), Tensor(c!))",
        bounds_check,
        _bounds_check_shapes,
    )
    registry.operator(
        "habana_split_permute_cat(Tensor input, Tensor indices, int batch_size, int num_features, int dims) -> Tensor",
        split_permute_cat,
        _split_shapes,
    )
