"""Collectives as nodes of the recorded graph: what PT_HPU_ENABLE_LAZY_COLLECTIVES asks for.

Each is an operator of its own, which the bridge records as any other: nothing is flushed, the graph goes on behind it,
and an HPU graph captures it. Its CPU kernel runs when the recipe does and does the real exchange; the compiler puts it
on the NIC (`device/compiler/lowering/collective.py`). Other collectives end the graph, as without the variable.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from device.timeline import INSIDE

from .calls import movements, reductions
from .calls.checks import check_parts, check_peer, check_tensor, reduce_name
from .communicator import Communicator
from .errors import CollectiveError
from .operation import Operation

_SCHEMAS = (
    "all_reduce_(Tensor(a!) self, str op, str group) -> Tensor(a!)",
    "broadcast_(Tensor(a!) self, int root, str group) -> Tensor(a!)",
    "all_gather_into_tensor_(Tensor(a!) self, Tensor input, str group) -> Tensor(a!)",
    "reduce_scatter_tensor_(Tensor(a!) self, Tensor input, str op, str group) -> Tensor(a!)",
    "all_to_all_single_(Tensor(a!) self, Tensor input, str group) -> Tensor(a!)",
)
_REDUCE_OPS = {name: getattr(dist.ReduceOp, name) for name in ("SUM", "MIN", "MAX", "PRODUCT")}
_groups: weakref.WeakValueDictionary[str, Communicator] = weakref.WeakValueDictionary()
_library: list[torch.library.Library] = []


class RecordedWork(dist.Work):
    """Of a collective that is part of the graph: what uses its result comes after it there, so nobody has to wait."""

    def __init__(self, outputs: list[torch.Tensor]) -> None:
        super().__init__()
        self._outputs = outputs

    def wait(self, timeout: timedelta | None = None) -> bool:
        return True

    def synchronize(self) -> None:
        """As `wait`."""

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def result(self) -> list[torch.Tensor]:
        return self._outputs

    def get_future(self) -> torch.futures.Future:
        """A future of the outputs, which is done."""
        future: torch.futures.Future = torch.futures.Future()
        future.set_result(self._outputs)
        return future


# -- recording ---------------------------------------------------------------------------------------------------------


def all_reduce(group: Communicator, tensor: torch.Tensor, reduce_op: Any) -> RecordedWork:
    check_tensor(tensor, "all_reduce")
    _record("all_reduce_", group, tensor, reduce_name(reduce_op, tensor.dtype, "all_reduce"))
    return RecordedWork([tensor])


def broadcast(group: Communicator, tensor: torch.Tensor, root: int) -> RecordedWork:
    check_tensor(tensor, "broadcast")
    _record("broadcast_", group, tensor, check_peer(root, group.size, "broadcast"))
    return RecordedWork([tensor])


def all_gather(group: Communicator, output: torch.Tensor, source: torch.Tensor) -> RecordedWork:
    check_tensor(source, "all_gather_into_tensor")
    check_parts(output, source, group.size, "all_gather_into_tensor")
    _record("all_gather_into_tensor_", group, output, source.detach())
    return RecordedWork([output])


def reduce_scatter(group: Communicator, output: torch.Tensor, source: torch.Tensor, reduce_op: Any) -> RecordedWork:
    name = "reduce_scatter_tensor"
    check_tensor(output, name)
    check_parts(source, output, group.size, name)
    _record("reduce_scatter_tensor_", group, output, source.detach(), reduce_name(reduce_op, output.dtype, name))
    return RecordedWork([output])


def all_to_all(group: Communicator, output: torch.Tensor, source: torch.Tensor) -> RecordedWork:
    """Equal parts."""
    check_tensor(source, "all_to_all_single")
    if output.shape != source.shape or output.dtype != source.dtype or source.shape[0] % group.size:
        raise CollectiveError(
            f"all_to_all_single: {group.size} equal parts of {list(source.shape)} are to become {list(output.shape)}; "
            "give both the same shape, divisible along dimension 0, or split sizes"
        )
    _record("all_to_all_single_", group, output, source.detach())
    return RecordedWork([output])


def _record(name: str, group: Communicator, tensor: torch.Tensor, *arguments: Any) -> None:
    group.check_usable(lambda: name.strip("_"))
    _define()
    _groups[group.label] = group
    group.recorded += 1
    getattr(torch.ops.hccl, name)(tensor.detach(), *arguments, group.label)


# -- running -----------------------------------------------------------------------------------------------------------


def _all_reduce(self: torch.Tensor, op: str, group: str) -> torch.Tensor:
    found = _groups[group]
    return _run(found, reductions.all_reduce(found, "all_reduce", [self], _REDUCE_OPS[op]), self)


def _broadcast(self: torch.Tensor, root: int, group: str) -> torch.Tensor:
    found = _groups[group]
    return _run(found, movements.broadcast(found, self, root), self)


def _all_gather(self: torch.Tensor, input: torch.Tensor, group: str) -> torch.Tensor:
    found = _groups[group]
    return _run(found, movements.all_gather(found, "all_gather_into_tensor", [(self, input)]), self)


def _reduce_scatter(self: torch.Tensor, input: torch.Tensor, op: str, group: str) -> torch.Tensor:
    found = _groups[group]
    pairs = [(self, input)]
    return _run(found, reductions.reduce_scatter(found, "reduce_scatter_tensor", pairs, _REDUCE_OPS[op]), self)


def _all_to_all(self: torch.Tensor, input: torch.Tensor, group: str) -> torch.Tensor:
    found = _groups[group]
    return _run(found, movements.all_to_all_single(found, self, input, (), ()), self)


def _run(group: Communicator, operation: Operation, result: torch.Tensor) -> torch.Tensor:
    operation.waits = INSIDE
    group.issue(operation, wait=True)
    return result


_KERNELS: tuple[Callable[..., torch.Tensor], ...] = (_all_reduce, _broadcast, _all_gather, _reduce_scatter, _all_to_all)


def _define() -> None:
    """Make the operators, once."""
    if _library:
        return
    library = torch.library.Library("hccl", "DEF")
    for schema, kernel in zip(_SCHEMAS, _KERNELS, strict=True):
        name = library.define(schema)
        library.impl(name, kernel, "CPU")
        library.impl(name, _same, "Meta")
    _library.append(library)


def _same(self: torch.Tensor, *arguments: Any) -> torch.Tensor:
    return self
