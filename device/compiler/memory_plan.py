"""Places of the workspace in HBM: one block of memory, shared by buffers that are never alive together.

A buffer is alive from the start of the first node that touches it to the end of the last. Space is given in order of
time, each buffer the smallest gap that fits (best fit), else new space at the end. Sizes and offsets are multiples of
`ALIGNMENT`, the line that the card's memory is accessed in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ALIGNMENT = 128


@dataclass(frozen=True)
class Lifetime:
    """A buffer with its size in bytes and the time, in seconds, during which it is alive."""

    buffer: int
    nbytes: int
    start: float
    end: float


@dataclass(frozen=True)
class MemoryPlan:
    """Offsets in bytes by buffer, and the size of the whole block."""

    offsets: dict[int, int]
    nbytes: int


def padded(nbytes: int) -> int:
    """Size rounded up to the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class _Block:
    """Gaps of the block by offset; what lies behind the last one is in use up to `end`."""

    def __init__(self) -> None:
        self.end = 0
        self.peak = 0
        self._gaps: list[tuple[int, int]] = []  # (offset, size), by offset, never adjacent

    def take(self, size: int) -> int:
        fitting = [(length, offset, place) for place, (offset, length) in enumerate(self._gaps) if length >= size]
        if fitting:
            length, offset, place = min(fitting)
            if length == size:
                self._gaps.pop(place)
            else:
                self._gaps[place] = (offset + size, length - size)
            return offset
        offset = self.end
        self.end += size
        self.peak = max(self.peak, self.end)
        return offset

    def give(self, offset: int, size: int) -> None:
        place = _place(self._gaps, offset)
        if place < len(self._gaps) and self._gaps[place][0] == offset + size:
            size += self._gaps.pop(place)[1]
        if place > 0 and sum(self._gaps[place - 1]) == offset:
            place -= 1
            before = self._gaps.pop(place)
            offset, size = before[0], before[1] + size
        if offset + size == self.end:
            self.end = offset
        else:
            self._gaps.insert(place, (offset, size))


def _place(gaps: list[tuple[int, int]], offset: int) -> int:
    low, high = 0, len(gaps)
    while low < high:
        middle = (low + high) // 2
        if gaps[middle][0] < offset:
            low = middle + 1
        else:
            high = middle
    return low


def plan_memory(lifetimes: Iterable[Lifetime]) -> MemoryPlan:
    """Place the buffers; those that touch in time (one ends as another starts) may share memory."""
    ordered = sorted(lifetimes, key=lambda life: (life.start, -life.nbytes, life.buffer))
    endings = sorted(ordered, key=lambda life: (life.end, life.buffer))
    block, ended = _Block(), 0
    offsets: dict[int, int] = {}
    for life in ordered:
        while ended < len(endings) and endings[ended].end <= life.start and endings[ended].buffer in offsets:
            done = endings[ended]
            block.give(offsets[done.buffer], padded(done.nbytes))
            ended += 1
        offsets[life.buffer] = block.take(padded(life.nbytes))
    return MemoryPlan(offsets, block.peak)
