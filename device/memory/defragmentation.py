"""Defragmentation: move tensors together where enough is free in total but no hole is large enough.

As in Gaudi's PyTorch bridge (backend/synapse_helpers/memory_defragmentation): for a tensor, the stretch of memory that
begins with a hole, whose holes add up to the request, and in which least is in use; for the workspace, the stretch
below it. All blocks of the stretch are given up and placed again by best fit, lowest first and without waste, and those
whose offset changed have to be moved: read once and written once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .pool import Pool, block_of, offset_of, size_of


@dataclass(frozen=True)
class Defragmentation:
    """One defragmentation that succeeded: blocks and bytes moved, and how long it took in seconds."""

    moved: int
    nbytes: int
    seconds: float

    @property
    def milliseconds(self) -> int:
        """Whole milliseconds, as the event says them."""
        return int(self.seconds * 1000)


def make_room(pool: Pool, wanted: Mapping[int, int], request: int) -> dict[int, int] | None:
    """Move blocks so that one hole holds `request` bytes.

    Args:
        pool: the holes.
        wanted: each block in use with the bytes that it has to hold, rounded up to the granule.
        request: bytes, a multiple of the granule.

    Returns:
        The new block of each one that was given up, also of those that came to lie where they were; None, and nothing
        happened, where too little is free.
    """
    stretch = _cheapest_stretch(_layout(pool, wanted), request)
    return None if stretch is None else _place_again(pool, wanted, stretch)


def make_room_below_end(pool: Pool, wanted: Mapping[int, int], request: int) -> dict[int, int] | None:
    """As `make_room`, for a hole that ends where the workspace begins."""
    free, stretch = 0, []
    for begin, size, used in reversed(_layout(pool, wanted)):
        stretch.append((begin, size, used))
        free += 0 if used else size
        if free >= request:
            return _place_again(pool, wanted, stretch[::-1])
    return None


def moved_bytes(moves: Mapping[int, int]) -> tuple[int, int]:
    """Blocks and bytes whose place changed."""
    changed = [size_of(new) for old, new in moves.items() if offset_of(old) != offset_of(new)]
    return len(changed), sum(changed)


_Entry = tuple[int, int, bool]  # begin, size, in use


def _layout(pool: Pool, wanted: Mapping[int, int]) -> list[_Entry]:
    entries = [(offset_of(block), size_of(block), True) for block in wanted]
    entries += [(offset_of(hole), size_of(hole), False) for hole in pool.holes()]
    return sorted(entries)


def _cheapest_stretch(entries: list[_Entry], request: int) -> list[_Entry] | None:
    best: tuple[int, int, int] | None = None  # bytes in use, first entry, end
    free = used = end = 0
    for first, (_, size, in_use) in enumerate(entries):
        if not in_use:
            while end < len(entries) and free < request:
                free += 0 if entries[end][2] else entries[end][1]
                used += entries[end][1] if entries[end][2] else 0
                end += 1
            if free < request:
                break
            if best is None or used < best[0]:
                best = used, first, end
        if first < end:
            free -= 0 if in_use else size
            used -= size if in_use else 0
        else:
            end = first + 1
    return None if best is None else entries[best[1] : best[2]]


def _place_again(pool: Pool, wanted: Mapping[int, int], stretch: list[_Entry]) -> dict[int, int]:
    blocks = [block_of(size, begin) for begin, size, used in stretch if used]
    for block in blocks:
        pool.release(block)
    return {block: pool.allocate(wanted[block], exact=True) for block in blocks}
