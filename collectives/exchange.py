"""The data movement of each collective, as one rank takes part in it.

These describe; whoever has a way to the other ranks moves the data (`transport/`). Arrays are 1-D and contiguous,
in the dtype's storage form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch

from .data_movement import moves_data
from .reduction import Reduction, flat_array, storage_dtype
from .roce import fabric


class Exchange(Protocol):
    """One rank's part in one collective of `ranks` ranks.

    `dtype` is the storage dtype, `items` the elements of the longest block (the same on all ranks, once `agree` was
    called where `is_uneven`). `moves_data` is False where only headers are exchanged.
    """

    rank: int
    ranks: int
    dtype: np.dtype
    items: int
    is_uneven: bool
    moves_data: bool
    pattern: str

    @property
    def model_bytes(self) -> int:
        """S of `FabricModel.seconds` for the exchange's `pattern`; the same on all ranks, as `items`."""
        ...

    def table(self) -> Sequence[int]:
        """This rank's split table where `is_uneven`: lengths of the blocks to each rank, then from each rank."""
        ...

    def agree(self, tables: Sequence[Sequence[int]]) -> None:
        """All ranks' split tables; called before anything else where `is_uneven`."""
        ...

    def move_own(self) -> None:
        """What a rank has for itself: all that there is to do in a group of one."""
        ...


class _Even:
    """An exchange whose lengths are equal on all ranks."""

    is_uneven = False
    pattern = fabric.BARRIER

    def __init__(self, rank: int, ranks: int, dtype: np.dtype, items: int) -> None:
        self.rank = rank
        self.ranks = ranks
        self.dtype = dtype
        self.items = items
        self.moves_data = moves_data(items * dtype.itemsize)

    @property
    def model_bytes(self) -> int:
        return self.items * self.dtype.itemsize

    def table(self) -> Sequence[int]:
        return ()

    def agree(self, tables: Sequence[Sequence[int]]) -> None:
        """Nothing to agree on."""

    def move_own(self) -> None:
        """Nothing to do where results replace the data."""


class Barrier(_Even):
    """No data."""

    def __init__(self, rank: int, ranks: int) -> None:
        super().__init__(rank, ranks, np.dtype(np.uint8), 0)


class AllReduce(_Even):
    """All-reduce (or reduce, with a root) in place, of a contiguous tensor in host memory."""

    def __init__(
        self, rank: int, ranks: int, tensor: torch.Tensor, reduction: Reduction, root: int | None = None
    ) -> None:
        super().__init__(rank, ranks, storage_dtype(tensor.dtype), tensor.numel())
        self.address = tensor.data_ptr()
        self.reduction = reduction
        self._tensor = tensor
        self.root = root
        self.pattern = fabric.ALL_REDUCE if root is None else fabric.REDUCE

    @property
    def data(self) -> np.ndarray:
        """The elements, in the dtype's storage form."""
        return flat_array(self._tensor)


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

    def move_own(self) -> None:
        self.output[:] = self.blocks[self.rank]

    @property
    def model_bytes(self) -> int:
        return self.items * self.ranks * self.dtype.itemsize


class AllGather(_Even):
    """Every rank's input becomes block r of every output."""

    pattern = fabric.ALL_GATHER

    def __init__(self, rank: int, ranks: int, data: np.ndarray, outputs: Sequence[np.ndarray]) -> None:
        super().__init__(rank, ranks, data.dtype, len(data))
        self.data = data
        self.outputs = outputs

    def move_own(self) -> None:
        self.outputs[self.rank][:] = self.data

    @property
    def model_bytes(self) -> int:
        return self.items * self.ranks * self.dtype.itemsize


class Gather(AllGather):
    """Every rank's input becomes block r of the root's output; the others have no outputs."""

    pattern = fabric.GATHER

    def __init__(self, rank: int, ranks: int, data: np.ndarray, outputs: Sequence[np.ndarray], root: int) -> None:
        super().__init__(rank, ranks, data, outputs)
        self.root = root

    @property
    def model_bytes(self) -> int:
        return self.items * self.dtype.itemsize


class Broadcast(_Even):
    """The root's data goes to all."""

    pattern = fabric.BROADCAST

    def __init__(self, rank: int, ranks: int, data: np.ndarray, root: int) -> None:
        super().__init__(rank, ranks, data.dtype, len(data))
        self.data = data
        self.root = root


class Scatter(_Even):
    """Block r of the root goes to rank r; `blocks` is None elsewhere."""

    pattern = fabric.SCATTER

    def __init__(
        self, rank: int, ranks: int, blocks: Sequence[np.ndarray] | None, output: np.ndarray, root: int
    ) -> None:
        super().__init__(rank, ranks, output.dtype, len(output))
        self.blocks = blocks
        self.output = output
        self.root = root

    def move_own(self) -> None:
        if self.blocks is not None:
            self.output[:] = self.blocks[self.rank]


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
        # Until the ranks agree, what this one knows: of even blocks that is all.
        super().__init__(rank, ranks, dtype, max(map(len, (*inputs, *outputs))))
        self.moves_data = moves_data()  # whatever this rank's own lengths
        self.inputs = inputs
        self.outputs = outputs

    @property
    def model_bytes(self) -> int:
        return self.items * self.ranks * self.dtype.itemsize

    def table(self) -> Sequence[int]:
        return [len(block) for block in self.inputs] + [len(block) for block in self.outputs]

    def agree(self, tables: Sequence[Sequence[int]]) -> None:
        self.items = max(max(table[: self.ranks]) for table in tables)

    def move_own(self) -> None:
        self.outputs[self.rank][:] = self.inputs[self.rank]
