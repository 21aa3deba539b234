"""Gather, scatter, index and embedding: bytes move in runs as long as what one index names."""

from __future__ import annotations

from ...graph.ir import Operand, Window
from ..kernel import Kernel, Touch
from ..layout import item_bytes
from .operator import Operator, Rule, named, normal_dims, touch, volume

INDEX_NAMES = ("index", "indices", "mask", "offsets", "offset2bag", "bag_size", "maximum_indices")


def row_bytes(window: Window, dim: int) -> int:
    """Bytes that one index along `dim` names: everything inside that dimension."""
    return volume(window.sizes[dim + 1 :]) * item_bytes(window.dtype)


def _dim(operator: Operator, rank: int) -> int:
    return normal_dims(operator.attribute("dim", 0), rank)[0] if rank else 0


def _streams(operator: Operator) -> list[Touch]:
    return [touch(operand) for operand in operator.reads if operand.name in INDEX_NAMES]


def take_rows(operator: Operator) -> list[Kernel]:
    """index_select and embedding: whole rows of a table."""
    table = operator.operand("weight", "self")
    if table is None or not operator.writes:
        return [operator.tpc("gather_fwd", "gather", operator.elements)]
    result = operator.writes[0]
    dim = _dim(operator, len(table.window.sizes)) if operator.base == "index_select" else 0
    picked = touch(table, nbytes=result.window.nbytes, run=row_bytes(table.window, dim), in_order=False)
    return [_gather(operator, [picked, *_streams(operator)], result)]


def _gather(
    operator: Operator, reads: list[Touch], result: Operand, name: str = "gather_fwd", kind: str = "gather"
) -> Kernel:
    return operator.tpc(
        name,
        kind,
        result.window.elements,
        reads=reads,
        dtype=result.window.dtype,
        shape=result.window.sizes,
    )


def take_elements(operator: Operator) -> list[Kernel]:
    """gather and take: an index for every element; dimensions along which the index repeats move as one run."""
    source, index = operator.operand("self"), operator.operand("index")
    if source is None or index is None or not operator.writes:
        return [operator.tpc("gather_fwd", "gather", operator.elements)]
    item = item_bytes(source.window.dtype)
    rank, run = len(index.window.sizes), item
    dim = _dim(operator, rank)
    for position in reversed(range(dim + 1, rank)):
        if index.window.strides[position] != 0 or index.window.sizes[position] != source.window.sizes[position]:
            break
        run *= index.window.sizes[position]
    result = operator.writes[0]
    picked = touch(source, nbytes=result.window.elements * item, run=run, in_order=False)
    return [_gather(operator, [picked, touch(index)], result, "gather_elements_fwd")]


def _indexed_run(source: Window, picked: Window, indices: int) -> int:
    """Run of `x[i, j]`: the dimensions after the indexed ones, where they all come first; else one element."""
    tail = source.sizes[indices:]
    if indices and len(tail) <= len(picked.sizes) and picked.sizes[len(picked.sizes) - len(tail) :] == tail:
        return volume(tail) * item_bytes(source.dtype)
    return item_bytes(source.dtype)


def index(operator: Operator) -> list[Kernel]:
    """x[indices]."""
    source, indices = operator.operand("self"), operator.listed("indices")
    if source is None or not operator.writes:
        return [operator.tpc("index_fwd", "index", operator.elements)]
    result = operator.writes[0]
    run = _indexed_run(source.window, result.window, len(indices))
    reads = [touch(source, nbytes=result.window.nbytes, run=run, in_order=False), *map(touch, indices)]
    return [_gather(operator, reads, result, "index_fwd", "index")]


def put(operator: Operator) -> list[Kernel]:
    """x[indices] = values: in place it touches the named rows alone; out of place it copies the rest first."""
    source, values = operator.operand("self"), operator.operand("values")
    indices = operator.listed("indices")
    if source is None or values is None or not operator.writes:
        return [operator.tpc("index_put_fwd", "index", operator.elements)]
    named = max((operand.window.elements for operand in indices), default=1)
    tail = source.window.sizes[len(indices) :]
    run = volume(tail) * item_bytes(source.window.dtype) if indices else item_bytes(source.window.dtype)
    moved = max(named * run, values.window.nbytes)
    return [_write_rows(operator, source, values, moved, run, "index_put_fwd", "index", [*map(touch, indices)])]


def _write_rows(
    operator: Operator,
    source: Operand,
    values: Operand | None,
    moved: int,
    run: int,
    name: str,
    kind: str,
    streams: list[Touch],
) -> Kernel:
    result = operator.writes[0]
    in_place = result.buffer == source.buffer
    adds = bool(operator.attribute("accumulate", False)) or any(
        word in operator.base for word in ("add", "reduce", "backward")
    )
    reads = [*streams] + ([touch(values)] if values is not None else [])
    writes = [touch(result, nbytes=moved, run=run, in_order=False)]
    if adds:
        reads.append(touch(result, nbytes=moved, run=run, in_order=False))
    if not in_place:
        reads.append(touch(source, in_order=False))
        writes.append(touch(result, in_order=False))
    elif not adds:  # rows that are not named keep their value
        reads.append(touch(source, nbytes=0))
    item = item_bytes(source.window.dtype)
    copied = 0 if in_place else source.window.elements
    return operator.tpc(
        name,
        kind,
        moved // item * (2 if adds else 1) + copied,
        reads=reads,
        writes=writes,
        dtype=source.window.dtype,
        shape=source.window.sizes,
    )


def scatter(operator: Operator) -> list[Kernel]:
    """scatter, scatter_add, scatter_reduce, index_add, index_copy, index_fill, masked_scatter, put."""
    source, where = operator.operand("self"), operator.operand("index", "mask")
    values = operator.operand("src", "source", "values", "value")
    if source is None or where is None or not operator.writes:
        return [operator.tpc(f"{operator.base}_fwd", "scatter", operator.elements)]
    item = item_bytes(source.window.dtype)
    by_row = operator.base.startswith("index_")
    run = row_bytes(source.window, _dim(operator, len(source.window.sizes))) if by_row else item
    if by_row and values is None:
        moved = source.window.nbytes // max(_length(operator, source.window), 1) * where.window.elements
    elif values is None or not by_row:
        moved = where.window.elements * item
    else:
        moved = values.window.nbytes
    return [_write_rows(operator, source, values, moved, run, f"{operator.base.strip('_')}_fwd", "scatter",
                        [touch(where)])]  # fmt: skip


def _length(operator: Operator, window: Window) -> int:
    return window.sizes[_dim(operator, len(window.sizes))] if window.sizes else 1


def embedding_backward(operator: Operator) -> list[Kernel]:
    """Gradient of an embedding's table: cleared, then the rows of the batch are added."""
    gradient = operator.operand("grad_output", "grad")
    if gradient is None or not operator.writes:
        return [operator.tpc("embedding_bwd", "scatter", operator.elements)]
    table = operator.writes[0]
    run = row_bytes(table.window, 0)
    named = operator.operand("indices", "index")
    moved = max(gradient.window.nbytes, run * named.window.elements if named is not None else 0)
    return [
        operator.tpc(
            "embedding_dense_bwd",
            "scatter",
            table.window.elements + moved // item_bytes(table.window.dtype) * 2,
            reads=[touch(gradient), *_streams(operator), touch(table, nbytes=moved, run=run, in_order=False)],
            writes=[touch(table, in_order=False), touch(table, nbytes=moved, run=run, in_order=False)],
            dtype=table.window.dtype,
            shape=table.window.sizes,
        )
    ]


def embedding_bag(operator: Operator) -> list[Kernel]:
    """Rows of a table, summed in bags."""
    table, indices = operator.operand("weight"), operator.operand("indices")
    if table is None or indices is None or not operator.writes:
        return [operator.tpc("embedding_bag_fwd", "gather", operator.elements)]
    run = row_bytes(table.window, 0)
    moved = run * indices.window.elements
    reads = [touch(table, nbytes=moved, run=run, in_order=False), *_streams(operator)]
    result = operator.writes[0].window
    return [
        operator.tpc(
            "embedding_bag_sum_fwd",
            "gather",
            moved / item_bytes(table.window.dtype),
            reads=reads,
            dtype=result.dtype,
            shape=result.sizes,
        )
    ]


RULES: dict[str, Rule] = {
    **dict.fromkeys(("index_select", "embedding"), take_rows),
    **dict.fromkeys(("gather", "take", "take_along_dim"), take_elements),
    "index": index,
    "_unsafe_index": index,
    **dict.fromkeys(("index_put", "_index_put_impl", "_unsafe_index_put"), put),
    **named(
        scatter, "scatter scatter_add scatter_reduce index_add index_copy index_fill index_reduce masked_scatter put"
    ),
    **dict.fromkeys(
        ("embedding_dense_backward", "_embedding_bag_backward", "_embedding_bag_dense_backward"), embedding_backward
    ),
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), embedding_bag),
}
