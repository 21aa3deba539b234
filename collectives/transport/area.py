"""Data buffers in shared memory: generations of slots, one slot per rank in each."""

from __future__ import annotations

import numpy as np


class Area:
    """`generations` x `ranks` slots of `slot_bytes` each, used in turn.

    A generation may be written again as soon as all ranks have passed one barrier more than there are stages
    that still read it; with g generations, g - 1 chunks are in flight.
    """

    def __init__(self, memory: np.ndarray, generations: int, ranks: int, slot_bytes: int) -> None:
        self.slot_bytes = slot_bytes
        self.generations = generations
        self._slots = memory[: generations * ranks * slot_bytes].reshape(generations, ranks, slot_bytes)
        self._views: dict[np.dtype, list[np.ndarray]] = {}
        self._first = 0

    def slots(self, chunk: int, dtype: np.dtype) -> np.ndarray:
        """Slots of a chunk of the current collective: shape [ranks, slot_bytes // itemsize]."""
        views = self._views.get(dtype)
        if views is None:
            views = self._views[dtype] = [generation.view(dtype) for generation in self._slots]
        return views[(self._first + chunk) % self.generations]

    def advance(self, chunks: int) -> None:
        """A collective of so many chunks is over."""
        self._first = (self._first + chunks) % self.generations
