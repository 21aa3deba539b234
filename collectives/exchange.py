"""The data movement of each collective, in terms of slots: one row of a shared array per rank.

A collective goes through its data in chunks. For each chunk every rank first *publishes* (writes its own
slot), then, where `combines` is set, *combines* (reduces its part of all slots), then *collects* (reads what
it needs from the others' slots); whoever drives it puts a barrier between the stages. Arrays are 1-D, in the
dtype's storage form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from .reduction import Reduction
from .roce import fabric


class Exchange(Protocol):
    """One rank's part in one collective.

    `items` is how far the chunks reach (elements, the same on all ranks once `agree` was called), `dtype` the
    storage dtype. `slots` has shape [ranks, elements of a slot]; `low` and `high` bound the chunk.
    """

    dtype: np.dtype
    items: int
    combines: bool
    is_uneven: bool
    pattern: str

    @property
    def model_bytes(self) -> int:
        """S of `FabricModel.seconds` for the exchange's `pattern`; the same on all ranks."""
        ...

    def table(self) -> Sequence[int]:
        """This rank's split table where `is_uneven`: lengths of the blocks to each rank, then from each rank."""
        ...

    def agree(self, tables: Sequence[Sequence[int]]) -> None:
        """All ranks' split tables; called before anything else where `is_uneven`."""
        ...

    def chunk_items(self, slot_items: int) -> int:
        """How many items a chunk may have if a slot holds `slot_items` elements."""
        ...

    def publish(self, slots: np.ndarray, low: int, high: int) -> None: ...

    def combine(self, slots: np.ndarray, low: int, high: int) -> None: ...

    def collect(self, slots: np.ndarray, low: int, high: int) -> None: ...


class _Even:
    """An exchange of one stage less whose lengths are equal on all ranks."""

    combines = False
    is_uneven = False
    pattern = fabric.BARRIER

    def __init__(self, rank: int, ranks: int, dtype: np.dtype, items: int) -> None:
        self.rank = rank
        self.ranks = ranks
        self.dtype = dtype
        self.items = items

    @property
    def model_bytes(self) -> int:
        return self.items * self.dtype.itemsize

    def table(self) -> Sequence[int]:
        return ()

    def agree(self, tables: Sequence[Sequence[int]]) -> None:
        """Nothing to agree on."""

    def chunk_items(self, slot_items: int) -> int:
        return slot_items

    def combine(self, slots: np.ndarray, low: int, high: int) -> None:
        raise NotImplementedError


class Barrier(_Even):
    """No data."""

    def __init__(self, rank: int, ranks: int) -> None:
        super().__init__(rank, ranks, np.dtype(np.uint8), 0)

    def publish(self, slots: np.ndarray, low: int, high: int) -> None:
        """Nothing to publish."""

    def collect(self, slots: np.ndarray, low: int, high: int) -> None:
        """Nothing to collect."""


class SmallReduce(_Even):
    """All-reduce (or reduce, with a root) of few bytes: everyone reads all slots and sums them itself."""

    def __init__(self, rank: int, ranks: int, data: np.ndarray, reduction: Reduction, root: int | None = None) -> None:
        super().__init__(rank, ranks, data.dtype, len(data))
        self.data = data
        self.reduction = reduction
        self.root = root
        self.pattern = fabric.ALL_REDUCE if root is None else fabric.REDUCE

    def publish(self, slots: np.ndarray, low: int, high: int) -> None:
        slots[self.rank, : high - low] = self.data[low:high]

    def collect(self, slots: np.ndarray, low: int, high: int) -> None:
        if self.root is None or self.root == self.rank:
            self.reduction(self.data[low:high], list(slots[:, : high - low]))


class AllReduce(SmallReduce):
    """All-reduce (or reduce, with a root) in two stages: each rank sums its share of the chunk, then all read
    the sums.

    A rank's own share does not pass through its slot before the sum, so the slot has room for the sum there.
    """

    combines = True

    def _share(self, rank: int, length: int) -> slice:
        return slice(length * rank // self.ranks, length * (rank + 1) // self.ranks)

    def publish(self, slots: np.ndarray, low: int, high: int) -> None:
        own = self._share(self.rank, high - low)
        slot = slots[self.rank]
        slot[: own.start] = self.data[low : low + own.start]
        slot[own.stop : high - low] = self.data[low + own.stop : high]

    def combine(self, slots: np.ndarray, low: int, high: int) -> None:
        own = self._share(self.rank, high - low)
        mine = self.data[low + own.start : low + own.stop]
        sources = [mine if rank == self.rank else slots[rank, own] for rank in range(self.ranks)]
        total = slots[self.rank, own]
        self.reduction(total, sources)
        if self.root is None or self.root == self.rank:
            mine[:] = total

    def collect(self, slots: np.ndarray, low: int, high: int) -> None:
        if self.root is not None and self.root != self.rank:
            return
        for rank in range(self.ranks):
            if rank != self.rank:
                share = self._share(rank, high - low)
                self.data[low + share.start : low + share.stop] = slots[rank, share]


class ReduceScatter(_Even):
    """Block r of every rank's input is summed at rank r. Blocks may differ in length between ranks."""

    pattern = fabric.REDUCE_SCATTER

    def __init__(
        self, rank: int, ranks: int, blocks: Sequence[np.ndarray], output: np.ndarray, reduction: Reduction
    ) -> None:
        super().__init__(rank, ranks, output.dtype, max(len(block) for block in blocks))
        self.blocks = blocks
        self.output = output
        self.reduction = reduction

    @property
    def model_bytes(self) -> int:
        return self.items * self.ranks * self.dtype.itemsize

    def chunk_items(self, slot_items: int) -> int:
        return slot_items // self.ranks

    def publish(self, slots: np.ndarray, low: int, high: int) -> None:
        pieces = slots[self.rank, : (high - low) * self.ranks].reshape(self.ranks, high - low)
        for piece, block in zip(pieces, self.blocks, strict=True):
            part = block[low:high]
            piece[: len(part)] = part

    def collect(self, slots: np.ndarray, low: int, high: int) -> None:
        target = self.output[low:high]
        if len(target):
            begin = self.rank * (high - low)
            self.reduction(target, list(slots[:, begin : begin + len(target)]))


class AllGather(_Even):
    """Every rank's input becomes block r of every output."""

    pattern = fabric.ALL_GATHER

    def __init__(self, rank: int, ranks: int, data: np.ndarray, outputs: Sequence[np.ndarray]) -> None:
        super().__init__(rank, ranks, data.dtype, len(data))
        self.data = data
        self.outputs = outputs

    @property
    def model_bytes(self) -> int:
        return self.items * self.ranks * self.dtype.itemsize

    def publish(self, slots: np.ndarray, low: int, high: int) -> None:
        slots[self.rank, : high - low] = self.data[low:high]

    def collect(self, slots: np.ndarray, low: int, high: int) -> None:
        for output, slot in zip(self.outputs, slots, strict=False):
            output[low:high] = slot[: high - low]


class Gather(AllGather):
    """Every rank's input becomes block r of the root's output; the others have no outputs."""

    pattern = fabric.GATHER

    @property
    def model_bytes(self) -> int:
        return self.items * self.dtype.itemsize


class Broadcast(_Even):
    """The root's data goes to all; it may use every rank's slot."""

    pattern = fabric.BROADCAST

    def __init__(self, rank: int, ranks: int, data: np.ndarray, root: int) -> None:
        super().__init__(rank, ranks, data.dtype, len(data))
        self.data = data
        self.root = root

    def chunk_items(self, slot_items: int) -> int:
        return slot_items * self.ranks

    def publish(self, slots: np.ndarray, low: int, high: int) -> None:
        if self.rank == self.root:
            slots.reshape(-1)[: high - low] = self.data[low:high]

    def collect(self, slots: np.ndarray, low: int, high: int) -> None:
        if self.rank != self.root:
            self.data[low:high] = slots.reshape(-1)[: high - low]


class Scatter(_Even):
    """Block r of the root goes to rank r; `blocks` is None elsewhere."""

    pattern = fabric.SCATTER

    def __init__(self, rank: int, ranks: int, blocks: Sequence[np.ndarray] | None, output: np.ndarray) -> None:
        super().__init__(rank, ranks, output.dtype, len(output))
        self.blocks = blocks
        self.output = output

    def publish(self, slots: np.ndarray, low: int, high: int) -> None:
        if self.blocks is not None:
            for block, slot in zip(self.blocks, slots, strict=True):
                slot[: high - low] = block[low:high]

    def collect(self, slots: np.ndarray, low: int, high: int) -> None:
        self.output[low:high] = slots[self.rank, : high - low]


class AllToAll(_Even):
    """Block s of rank r becomes block r of rank s. Every pair may have its own length, agreed by the split
    tables.
    """

    is_uneven = True
    pattern = fabric.ALL_TO_ALL

    def __init__(
        self,
        rank: int,
        ranks: int,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        dtype: np.dtype,
    ) -> None:
        super().__init__(rank, ranks, dtype, 0)
        self.inputs = inputs
        self.outputs = outputs

    @property
    def model_bytes(self) -> int:
        return self.items * self.ranks * self.dtype.itemsize

    def table(self) -> Sequence[int]:
        return [len(block) for block in self.inputs] + [len(block) for block in self.outputs]

    def agree(self, tables: Sequence[Sequence[int]]) -> None:
        self.items = max(max(table[: self.ranks]) for table in tables)

    def chunk_items(self, slot_items: int) -> int:
        return slot_items // self.ranks

    def publish(self, slots: np.ndarray, low: int, high: int) -> None:
        pieces = slots[self.rank, : (high - low) * self.ranks].reshape(self.ranks, high - low)
        for piece, block in zip(pieces, self.inputs, strict=True):
            part = block[low:high]
            piece[: len(part)] = part

    def collect(self, slots: np.ndarray, low: int, high: int) -> None:
        begin = self.rank * (high - low)
        for output, slot in zip(self.outputs, slots, strict=True):
            target = output[low:high]
            target[:] = slot[begin : begin + len(target)]
