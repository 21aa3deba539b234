"""Placement of tensors in the card's memory, as the pool of Gaudi's PyTorch bridge does it (PT_HPU_POOL_STRATEGY=4).

    request:  rounded up to 128 bytes; the smallest hole that holds it, the lowest of several; its front is given out
    split:    the rest stays a hole, unless it is small (at most 10 % of the hole and under 128 MiB): then it goes
              along, and counts as in use
    release:  merges with free neighbours at once
    top:      the workspace of all recipes lies at the upper end and grows downwards

Requests of one granule live in a region of their own (`SmallRegion`), which counts as in use as a whole. Source of the
rules: HabanaAI/gaudi-pytorch-bridge 1.19, backend/synapse_helpers/pool_allocator.

A block is one integer, `size << 48 | offset`, both in bytes: it sorts by size and then by offset, so that one sorted
list serves the best fit, and a step that repeats costs a few hundred nanoseconds per request.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator

GRANULE = 128  # bytes; DEVICE_ATTRIBUTE_ADDRESS_ALIGNMENT_SIZE, and the smallest bin of the bridge is twice that, 256
HEADER_BYTES = GRANULE  # kept free at the start of the pool
SMALL_BYTES = 6 * 1024 * GRANULE  # the region of requests of one granule
RESERVED_BYTES = HEADER_BYTES + SMALL_BYTES
MAX_WASTE = 128 * 2**20  # a hole is split when more than this, or more than a tenth of it, would go along unused

SHIFT = 48  # of a block's size
_OFFSET = (1 << SHIFT) - 1


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to the granule."""
    return (nbytes + GRANULE - 1) & -GRANULE


def block_of(size: int, offset: int) -> int:
    """The block of that size at that offset."""
    return size << SHIFT | offset


def size_of(block: int) -> int:
    """Bytes of a block."""
    return block >> SHIFT


def offset_of(block: int) -> int:
    """Where a block begins, in bytes from the start of the pool."""
    return block & _OFFSET


class Pool:
    """The holes between `begin` and `end`; who holds a block is the caller's to know. Sizes are whole granules."""

    def __init__(self, begin: int, end: int) -> None:
        self.begin = begin
        self.end = end  # where the workspace begins
        self._holes: list[int] = []
        self._sizes_by_begin: dict[int, int] = {}
        self._sizes_by_end: dict[int, int] = {}
        if end > begin:
            self._add(end - begin, begin)

    @property
    def free(self) -> int:
        """Bytes of all holes."""
        return sum(hole >> SHIFT for hole in self._holes)

    @property
    def largest(self) -> int:
        """Bytes of the largest hole."""
        return self._holes[-1] >> SHIFT if self._holes else 0

    def holes(self) -> Iterator[int]:
        """All holes as blocks, smallest first."""
        return iter(self._holes)

    def allocate(self, size: int, exact: bool = False) -> int:
        """A block of `size` bytes or, unless `exact`, a little more; 0 where no hole holds it."""
        holes = self._holes
        index = bisect_left(holes, size << SHIFT)
        if index == len(holes):
            return 0
        hole = holes[index]
        space = hole >> SHIFT
        offset = hole & _OFFSET
        rest = space - size
        if rest and (exact or 10 * size < 9 * space or rest >= MAX_WASTE):
            del self._sizes_by_begin[offset]
            begin = offset + size
            left = rest << SHIFT | begin
            if index and holes[index - 1] > left:
                del holes[index]
                insort(holes, left)
            else:
                holes[index] = left
            self._sizes_by_begin[begin] = self._sizes_by_end[offset + space] = rest
            return size << SHIFT | offset
        del holes[index], self._sizes_by_begin[offset], self._sizes_by_end[offset + space]
        return hole

    def release(self, block: int) -> None:
        """The block is free again."""
        holes = self._holes
        size = block >> SHIFT
        begin = block & _OFFSET
        end = begin + size
        behind = self._sizes_by_begin.pop(end, 0)
        if behind:
            del holes[bisect_left(holes, behind << SHIFT | end)]
            size += behind
            end += behind
        before = self._sizes_by_end.pop(begin, 0)
        if before:
            begin -= before
            size += before
            del holes[bisect_left(holes, before << SHIFT | begin)]
        insort(holes, size << SHIFT | begin)
        self._sizes_by_begin[begin] = self._sizes_by_end[end] = size

    def lower_end(self, nbytes: int) -> bool:
        """The workspace grows by `nbytes`; False, and nothing happens, where the space below it is not free."""
        space = self._sizes_by_end.get(self.end, 0)
        if space < nbytes:
            return False
        begin = self.end - space
        del self._holes[bisect_left(self._holes, space << SHIFT | begin)]
        del self._sizes_by_begin[begin], self._sizes_by_end[self.end]
        self.end -= nbytes
        if space > nbytes:
            self._add(space - nbytes, begin)
        return True

    def raise_end(self, nbytes: int) -> None:
        """The workspace shrinks by `nbytes`, which are free from then on."""
        self.end += nbytes
        self.release(nbytes << SHIFT | self.end - nbytes)

    def _add(self, size: int, begin: int) -> None:
        insort(self._holes, size << SHIFT | begin)
        self._sizes_by_begin[begin] = self._sizes_by_end[begin + size] = size


class SmallRegion:
    """Slots of one granule, the lowest free one first. Its blocks have size 0: the region counts as a whole."""

    def __init__(self, begin: int, end: int) -> None:
        self._next = begin
        self._end = end
        self._released: list[int] = []

    def allocate(self) -> int:
        """The offset of a slot; 0 where all are taken."""
        if self._released:
            return heapq.heappop(self._released)
        if self._next == self._end:
            return 0
        self._next += GRANULE
        return self._next - GRANULE

    def release(self, offset: int) -> None:
        """The slot is free again."""
        heapq.heappush(self._released, offset)
