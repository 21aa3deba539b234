"""all_reduce, reduce and reduce_scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import exchange
from ..communicator import Communicator
from ..header import NO_ROOT, Signature
from ..operation import Operation, Part
from ..reduction import reduction
from .checks import check_list, check_numel, check_parts, check_tensor, reduce_name


def all_reduce(
    group: Communicator, name: str, tensors: Sequence[torch.Tensor], reduce_op: Any, root: int | None = None
) -> Operation:
    """Reduce each tensor in place; with a root, only there."""
    operation = Operation(name, outputs=list(tensors))
    for tensor in tensors:
        check_tensor(tensor, name)
        op = reduce_name(reduce_op, tensor.dtype, name)
        target = NO_ROOT if root is None else group.ranks[root]
        data = operation.staging.contiguous(tensor, keep=True)
        part = exchange.AllReduce(group.rank, group.size, data, reduction(op, tensor.dtype), root)
        operation.parts.append(Part(Signature(name, op, tensor.dtype, target, (tuple(tensor.shape),)), part))
    return operation


def reduce_scatter(
    group: Communicator, name: str, pairs: Sequence[tuple[torch.Tensor, Any]], reduce_op: Any
) -> Operation:
    """For each pair of output and input (a tensor of equal parts, or a list of blocks): part r is reduced at
    rank r.
    """
    operation = Operation(name, outputs=[output for output, _ in pairs])
    for output, source in pairs:
        check_tensor(output, name)
        op = reduce_name(reduce_op, output.dtype, name)
        if isinstance(source, torch.Tensor):
            check_parts(source, output, group.size, name)
            data, length = operation.staging.source(source), output.numel()
            blocks = [data[length * rank : length * (rank + 1)] for rank in range(group.size)]
            shapes: tuple[tuple[int, ...], ...] = (tuple(source.shape),)
        else:
            check_list(source, group.size, output.dtype, name)
            check_numel(output, source[group.rank], name)
            blocks = [operation.staging.source(block) for block in source]
            shapes = tuple(tuple(block.shape) for block in source)
        target = operation.staging.target(output)
        part = exchange.ReduceScatter(group.rank, group.size, blocks, target, reduction(op, output.dtype))
        operation.parts.append(Part(Signature(name, op, output.dtype, shapes=shapes), part))
    return operation
