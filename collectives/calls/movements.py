"""Collectives that only move data: gathers, broadcast, scatter, all-to-all, and the barrier, which moves
none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from device.timeline import HOST

from .. import exchange
from ..communicator import Communicator
from ..errors import CollectiveError
from ..header import Signature
from ..operation import Operation, Part
from ..reduction import storage_dtype
from .checks import check_list, check_numel, check_parts, check_tensor

Tensors = Sequence[torch.Tensor]


def all_gather(group: Communicator, name: str, pairs: Sequence[tuple[Any, torch.Tensor]]) -> Operation:
    """For each pair of output (a tensor for all parts, or a list of blocks) and input: every rank's input, in
    order.
    """
    operation = Operation(name)
    for output, source in pairs:
        check_tensor(source, name)
        data = operation.staging.source(source)
        if isinstance(output, torch.Tensor):
            check_parts(output, source, group.size, name)
            flat, length = operation.staging.target(output), source.numel()
            targets = [flat[length * rank : length * (rank + 1)] for rank in range(group.size)]
            operation.outputs.append(output)
        else:
            targets = _targets(operation, output, source, group.size)
            operation.outputs.extend(output)
        part = exchange.AllGather(group.rank, group.size, data, targets)
        operation.parts.append(Part(Signature(name, dtype=source.dtype, shapes=(tuple(source.shape),)), part))
    return operation


def gather(group: Communicator, outputs: Tensors, source: torch.Tensor, root: int) -> Operation:
    """Every rank's input in the root's list; `outputs` counts at the root only."""
    operation = Operation("gather")
    check_tensor(source, operation.name)
    data = operation.staging.source(source)
    targets: list[np.ndarray] = []
    if root == group.rank:
        operation.outputs = list(outputs)
        targets = _targets(operation, outputs, source, group.size)
    part = exchange.Gather(group.rank, group.size, data, targets, root)
    signature = Signature("gather", "", source.dtype, group.ranks[root], (tuple(source.shape),))
    operation.parts.append(Part(signature, part))
    return operation


def _targets(operation: Operation, outputs: Tensors, source: torch.Tensor, ranks: int) -> list[np.ndarray]:
    check_list(outputs, ranks, source.dtype, operation.name)
    for block in outputs:
        check_numel(block, source, operation.name)
    return [operation.staging.target(block) for block in outputs]


def broadcast(group: Communicator, tensor: torch.Tensor, root: int) -> Operation:
    """The root's tensor on every rank."""
    check_tensor(tensor, "broadcast")
    operation = Operation("broadcast", outputs=[tensor])
    data = operation.staging.target(tensor, keep=True)
    part = exchange.Broadcast(group.rank, group.size, data, root)
    signature = Signature("broadcast", "", tensor.dtype, group.ranks[root], (tuple(tensor.shape),))
    operation.parts.append(Part(signature, part))
    return operation


def scatter(group: Communicator, output: torch.Tensor, tensors: Tensors, root: int) -> Operation:
    """Block r of the root's list at rank r; `tensors` counts at the root only."""
    check_tensor(output, "scatter")
    operation = Operation("scatter", outputs=[output])
    blocks = None
    if root == group.rank:
        check_list(tensors, group.size, output.dtype, operation.name)
        for block in tensors:
            check_numel(block, output, operation.name)
        blocks = [operation.staging.source(block) for block in tensors]
    part = exchange.Scatter(group.rank, group.size, blocks, operation.staging.target(output), root)
    signature = Signature("scatter", "", output.dtype, group.ranks[root], (tuple(output.shape),))
    operation.parts.append(Part(signature, part))
    return operation


def all_to_all(group: Communicator, outputs: Tensors, inputs: Tensors) -> Operation:
    """Block s of rank r becomes block r of rank s; every pair may have its own length."""
    name = "all_to_all"
    if not inputs:
        raise CollectiveError(f"{name}: the list of inputs is empty")
    check_tensor(inputs[0], name)
    dtype = inputs[0].dtype
    check_list(inputs, group.size, dtype, name)
    check_list(outputs, group.size, dtype, name)
    operation = Operation(name, outputs=list(outputs))
    sources = [operation.staging.source(block) for block in inputs]
    targets = [operation.staging.target(block) for block in outputs]
    part = exchange.AllToAll(group.rank, group.size, sources, targets, storage_dtype(dtype))
    operation.parts.append(Part(Signature(name, dtype=dtype), part))
    return operation


def all_to_all_single(
    group: Communicator,
    output: torch.Tensor,
    source: torch.Tensor,
    output_splits: Sequence[int],
    input_splits: Sequence[int],
) -> Operation:
    """Rows of the input to every rank by split sizes along dimension 0 (none given: equal parts)."""
    name = "all_to_all_single"
    check_tensor(output, name)
    check_tensor(source, name)
    if output.dtype != source.dtype:
        raise CollectiveError(f"{name}: dtypes differ: output {output.dtype}, input {source.dtype}")
    operation = Operation(name, outputs=[output])
    sources = _rows(operation.staging.source(source), source, input_splits, group.size, "input")
    targets = _rows(operation.staging.target(output), output, output_splits, group.size, "output")
    part = exchange.AllToAll(group.rank, group.size, sources, targets, storage_dtype(source.dtype))
    operation.parts.append(Part(Signature(name, dtype=source.dtype), part))
    return operation


def _rows(data: np.ndarray, tensor: torch.Tensor, splits: Sequence[int], ranks: int, what: str) -> list[np.ndarray]:
    """The parts of a tensor's data for (or from) every rank."""
    rows = tensor.shape[0] if tensor.dim() else 1
    sizes = list(splits)
    if not sizes:
        if rows % ranks:
            raise CollectiveError(
                f"all_to_all_single: dimension 0 of the {what} ({rows}) does not divide by the group's {ranks} ranks; "
                "give split sizes"
            )
        sizes = [rows // ranks] * ranks
    if len(sizes) != ranks or sum(sizes) != rows or min(sizes) < 0:
        raise CollectiveError(
            f"all_to_all_single: {what} split sizes {sizes} must be {ranks} numbers from 0 on with the sum {rows}"
        )
    row = tensor.numel() // rows if rows else 0
    starts = [sum(sizes[:rank]) * row for rank in range(ranks)]
    return [data[start : start + size * row] for start, size in zip(starts, sizes, strict=True)]


def barrier(group: Communicator, is_on_card: bool) -> Operation:
    """No data; all ranks of the group have come when it is over."""
    operation = Operation("barrier")
    operation.staging.is_on_card = is_on_card
    operation.waits = HOST
    operation.parts.append(Part(Signature("barrier"), exchange.Barrier(group.rank, group.size)))
    return operation
