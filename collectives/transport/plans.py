"""What the native data plane must know of an exchange: its `Plan`, filled in place for each collective."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import exchange as kinds
from . import native

_SEGMENT, _BLOCK = 4, 2  # words


class Planner:
    """Fills the plan of one rank's plane. What it points to must stay as it is until the collective is over."""

    def __init__(self, plane: native.Plane) -> None:
        self._plan = plane.plan
        self._own, self._ranks = plane.own, plane.ranks
        words = ctypes.c_uint64 * ((_SEGMENT + 2 * _BLOCK) * plane.ranks)
        self._words = words()
        self._segments = 0
        self._inputs = _SEGMENT * plane.ranks
        self._outputs = self._inputs + _BLOCK * plane.ranks
        begin = ctypes.addressof(self._words)
        self._plan.segments, self._plan.inputs, self._plan.outputs = (
            begin,
            begin + 8 * self._inputs,
            begin + 8 * self._outputs,
        )
        self._keep: Any = None

    def clear(self, exchange: kinds.Exchange) -> None:
        """No data moves; headers and split tables are compared all the same."""
        plan = self._plan
        plan.kind = native.NOTHING
        plan.is_uneven = exchange.is_uneven
        plan.element_bytes = exchange.dtype.itemsize

    def fill(self, exchange: kinds.Exchange, is_agreed: bool = False) -> None:
        """Plan an exchange; with `is_agreed` the split tables of an uneven one are known to all."""
        _FILLERS[type(exchange)](self, exchange)
        if is_agreed and exchange.is_uneven:
            self._plan.is_uneven = 0
            self._plan.longest = exchange.items * exchange.dtype.itemsize

    def _nothing(self, exchange: kinds.Barrier) -> None:
        self.clear(exchange)

    def _reduce(self, exchange: kinds.AllReduce) -> None:
        address, root = exchange.address, exchange.root
        self._reduction(exchange.reduction, 1)
        self._words[0:_SEGMENT] = address, address, exchange.model_bytes, native.ALL & _MASK if root is None else root

    def _reduce_scatter(self, exchange: kinds.ReduceScatter) -> None:
        self._reduction(exchange.reduction, self._ranks)
        target = exchange.output.ctypes.data
        for rank, block in enumerate(exchange.blocks):
            self._words[_SEGMENT * rank : _SEGMENT * (rank + 1)] = block.ctypes.data, target, block.nbytes, rank

    def _reduction(self, reduction: kinds.Reduction, segments: int) -> None:
        plan = self._plan
        plan.kind, plan.type, plan.operation = native.REDUCE, reduction.type_code, reduction.operation_code
        plan.is_uneven = 0
        plan.segment_count = segments

    def _all_gather(self, exchange: kinds.AllGather) -> None:
        self._move(exchange, native.ALL, native.ALL, [exchange.data], exchange.outputs)

    def _gather(self, exchange: kinds.Gather) -> None:
        # Only the root has outputs; the others need not know which rank it is, but for that it is not they.
        self._move(exchange, native.ALL, exchange.root, [exchange.data], exchange.outputs)

    def _broadcast(self, exchange: kinds.Broadcast) -> None:
        self._move(exchange, exchange.root, native.ALL, [exchange.data], [exchange.data], exchange.root)

    def _scatter(self, exchange: kinds.Scatter) -> None:
        blocks = exchange.blocks or ()
        self._move(exchange, exchange.root, native.ALL, blocks, [exchange.output], exchange.root, is_distinct=True)

    def _all_to_all(self, exchange: kinds.AllToAll) -> None:
        self._move(exchange, native.ALL, native.ALL, exchange.inputs, exchange.outputs, is_distinct=True)
        self._plan.is_uneven = 1
        self._plan.element_bytes = exchange.dtype.itemsize

    def _move(
        self,
        exchange: kinds.Exchange,
        publisher: int,
        consumer: int,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        first_output: int = 0,
        is_distinct: bool = False,
    ) -> None:
        plan = self._plan
        plan.kind, plan.publisher, plan.consumer = native.MOVE, publisher, consumer
        plan.is_distinct, plan.is_uneven = is_distinct, 0
        plan.longest = exchange.items * exchange.dtype.itemsize
        self._blocks(self._inputs, inputs)
        self._blocks(self._outputs + _BLOCK * first_output, outputs)

    def _blocks(self, place: int, blocks: Sequence[np.ndarray]) -> None:
        words = [word for block in blocks for word in (block.ctypes.data, block.nbytes)]
        self._words[place : place + len(words)] = words


_MASK = 2**64 - 1
_FILLERS: dict[type, Callable[[Planner, Any], None]] = {
    kinds.Barrier: Planner._nothing,
    kinds.AllReduce: Planner._reduce,
    kinds.ReduceScatter: Planner._reduce_scatter,
    kinds.AllGather: Planner._all_gather,
    kinds.Gather: Planner._gather,
    kinds.Broadcast: Planner._broadcast,
    kinds.Scatter: Planner._scatter,
    kinds.AllToAll: Planner._all_to_all,
}
