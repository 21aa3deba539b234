"""What HCCL accepts. Every refusal happens before anything is exchanged, so it is the same on all ranks that
ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from .. import header
from ..errors import CollectiveError
from ..reduction import is_reducible

_DTYPES = frozenset(header.DTYPES)
_KINDS: Any = dist.ReduceOp.RedOpType
_REDUCE_OPS = {_KINDS.SUM: "SUM", _KINDS.MIN: "MIN", _KINDS.MAX: "MAX", _KINDS.PRODUCT: "PRODUCT"}


def single(tensors: Any, operation: str) -> Any:
    """The one tensor (or list of tensors) of this rank: one process drives one card."""
    if isinstance(tensors, torch.Tensor):
        return tensors
    if len(tensors) != 1:
        raise CollectiveError(f"{operation}: HCCL takes one tensor per rank, got a list of {len(tensors)}")
    return tensors[0]


def check_tensor(tensor: Any, operation: str) -> None:
    """Raise on what HCCL cannot carry."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{operation}: expected a tensor, got {type(tensor).__name__}")
    if tensor.layout != torch.strided:
        raise CollectiveError(f"{operation}: HCCL has no {tensor.layout} tensors; use tensor.to_dense()")
    if tensor.dtype not in _DTYPES:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in header.DTYPES)
        raise CollectiveError(f"{operation}: HCCL has no data type for {tensor.dtype}; convert to one of {known}")


def check_list(tensors: Sequence[torch.Tensor], ranks: int, dtype: torch.dtype, operation: str) -> None:
    """Raise unless there is one tensor for each rank, all of one dtype."""
    if len(tensors) != ranks:
        raise CollectiveError(f"{operation}: a list of {ranks} tensors (one per rank) is needed, got {len(tensors)}")
    for tensor in tensors:
        check_tensor(tensor, operation)
        if tensor.dtype != dtype:
            raise CollectiveError(f"{operation}: dtypes differ: {tensor.dtype} in a list, {dtype} beside it")


def check_numel(tensor: torch.Tensor, like: torch.Tensor, operation: str) -> None:
    """Raise unless two tensors have equally many elements."""
    if tensor.numel() != like.numel():
        raise CollectiveError(
            f"{operation}: a tensor of shape {list(tensor.shape)} stands beside one of {list(like.shape)}; "
            "they need the same number of elements"
        )


def check_parts(whole: torch.Tensor, part: torch.Tensor, ranks: int, operation: str) -> None:
    """Raise unless `whole` is as large as `part` of every rank together."""
    check_tensor(whole, operation)
    check_tensor(part, operation)
    if whole.dtype != part.dtype:
        raise CollectiveError(f"{operation}: dtypes differ: {whole.dtype} and {part.dtype}")
    if whole.numel() != part.numel() * ranks:
        raise CollectiveError(
            f"{operation}: a tensor of shape {list(whole.shape)} must have {ranks} times (the group's size) as "
            f"many elements as the one of shape {list(part.shape)}"
        )


def check_peer(peer: int, ranks: int, operation: str) -> int:
    """The rank itself, if the group has it."""
    if not 0 <= peer < ranks:
        raise CollectiveError(f"{operation}: the group has no rank {peer} (0 to {ranks - 1})")
    return peer


def reduce_name(reduce_op: Any, dtype: torch.dtype, operation: str) -> str:
    """The name of a ReduceOp: SUM, MIN, MAX or PRODUCT.

    Raises:
        CollectiveError: an operator that HCCL does not have, in the words of the real bridge.
    """
    kind = getattr(reduce_op, "op", reduce_op)
    name = _REDUCE_OPS.get(kind)
    if name is None:
        if kind == _KINDS.AVG and dtype == torch.bool:
            raise CollectiveError("Cannot use ReduceOp.AVG with boolean inputs")
        label = getattr(kind, "name", str(kind))
        hint = "; use SUM and divide by the world size" if label == "AVG" else ""
        raise CollectiveError(
            f"Unsupported ReduceOp for HCCL process group: {operation} with ReduceOp.{label} "
            f"(it has SUM, MIN, MAX and PRODUCT{hint})"
        )
    if not is_reducible(dtype):
        raise CollectiveError(f"{operation}: HCCL moves {dtype} but cannot reduce it; convert to bfloat16 first")
    return name
