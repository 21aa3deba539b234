"""What must be over before memory may be used: collectives that the host has issued and not waited for.

Each stands for the memory that it reads or writes. Whoever uses some of it waits for that one, and for no other: so a
card goes on computing while others are under way. Which one is waited for where depends on the program's order alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .captured_graph import CapturedGraph

MOST = 256
"""Fences that are open at once; beyond, the oldest is waited for. So tensors that nobody uses again are let go."""


class Extent(NamedTuple):
    """Memory of one tensor: the card address of its storage, and the bytes from `low` to `high` (addresses)."""

    storage: int
    low: int
    high: int


class Fence:
    """`wait` is called once, by whoever comes first."""

    def __init__(self, wait: Callable[[], None], extents: Sequence[Extent]) -> None:
        self.extents = tuple(extents)
        self._wait: Callable[[], None] | None = wait

    @property
    def is_open(self) -> bool:
        return self._wait is not None

    def settle(self) -> None:
        """Wait, unless somebody has."""
        wait, self._wait = self._wait, None
        if wait is not None:
            wait()

    def drop(self) -> None:
        """It was waited for otherwise."""
        self._wait = None


class Fences:
    """The open fences of one card, oldest first."""

    def __init__(self) -> None:
        self._open: list[Fence] = []

    def add(self, fence: Fence) -> None:
        self._open = [other for other in self._open if other.is_open]
        self._open.append(fence)
        while len(self._open) > MOST:
            self._open.pop(0).settle()

    def before_graph(self, recording: Any) -> None:
        """A graph is about to run."""
        if self._open:
            used = set(recording.uses(list({extent.storage for fence in self._open for extent in fence.extents})))
            self._settle(lambda extent: extent.storage in used)

    def before_replay(self, captured: CapturedGraph) -> None:
        """A captured graph is about to run again."""
        self._settle(lambda extent: captured.touches(extent.storage))

    def before_storage(self, address: int) -> None:
        """The storage at a card address is about to be read or written."""
        self._settle(lambda extent: extent.storage == address)

    def before_extent(self, used: Extent) -> None:
        """A tensor's memory is about to be read or written."""
        self._settle(lambda extent: used.low < extent.high and extent.low < used.high)

    def settle(self) -> None:
        """Wait for all."""
        touched, self._open = self._open, []
        for fence in touched:
            fence.settle()

    def _settle(self, is_used: Callable[[Extent], bool]) -> None:
        """Wait for those that stand for memory which is used."""
        if not self._open:
            return
        touched = [fence for fence in self._open if any(map(is_used, fence.extents))]
        if touched:
            self._open = [fence for fence in self._open if fence not in touched]
            for fence in touched:
                fence.settle()
