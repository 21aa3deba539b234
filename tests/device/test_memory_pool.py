"""Placement of tensors: best fit, splitting, merging, the workspace at the top, and moving tensors together."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from device.memory.defragmentation import make_room, make_room_below_end, moved_bytes
from device.memory.pool import GRANULE, MAX_WASTE, Pool, SmallRegion, aligned, block_of, offset_of, size_of

KIB = 1024
END = 64 * KIB

requests = st.lists(st.tuples(st.integers(1, 12 * KIB), st.integers(0, 10**6)), min_size=1, max_size=60)


def filled(*sizes: int) -> tuple[Pool, list[int]]:
    """A pool with blocks of these sizes side by side, from 0, and nothing free."""
    pool = Pool(0, sum(sizes))
    return pool, [pool.allocate(size, exact=True) for size in sizes]


def wanted(*blocks: int) -> dict[int, int]:
    return {block: size_of(block) for block in blocks}


def spans(pool: Pool, blocks: list[int]) -> list[tuple[int, int, bool]]:
    """(begin, end, in use) of everything, in order."""
    entries = [(offset_of(block), size_of(block), True) for block in blocks]
    entries += [(offset_of(hole), size_of(hole), False) for hole in pool.holes()]
    return sorted((begin, begin + size, used) for begin, size, used in entries)


def assert_sound(pool: Pool, blocks: list[int]) -> None:
    """Blocks and holes cover the pool without overlap, and no two holes touch."""
    position, was_hole = pool.begin, False
    for begin, end, used in spans(pool, blocks):
        assert begin == position and end > begin
        assert used or not was_hole
        position, was_hole = end, not used
    assert position == pool.end
    assert pool.free + sum(map(size_of, blocks)) == pool.end - pool.begin
    assert pool.largest == max(map(size_of, pool.holes()), default=0)


class TestBestFit:
    def test_the_smallest_hole_that_holds_it_and_the_lowest_of_several(self) -> None:
        pool, blocks = filled(2048, 128, 1024, 128, 1024, 128, 4096, 128)
        for block in (blocks[6], blocks[4], blocks[0], blocks[2]):
            pool.release(block)
        assert offset_of(pool.allocate(1024)) == 2048 + 128
        assert offset_of(pool.allocate(1024)) == 2048 + 128 + 1024 + 128
        assert offset_of(pool.allocate(1024)) == 0  # the front of 2048, whose rest stays a hole
        assert sorted(map(size_of, pool.holes())) == [1024, 4096]

    def test_a_small_rest_goes_along(self) -> None:
        pool, (first, _) = filled(1280, 128)
        pool.release(first)
        assert size_of(pool.allocate(1152)) == 1280  # 90 % of the hole
        pool, (first, _) = filled(1408, 128)
        pool.release(first)
        assert size_of(pool.allocate(1152)) == 1152  # less than 90 %

    def test_a_large_rest_does_not(self) -> None:
        pool, (first, _) = filled(10 * MAX_WASTE, 128)
        pool.release(first)
        assert size_of(pool.allocate(9 * MAX_WASTE)) == 9 * MAX_WASTE

    def test_nothing_fits(self) -> None:
        pool, (first, _) = filled(1024, 128)
        assert pool.allocate(128) == 0
        pool.release(first)
        assert pool.allocate(1152) == 0

    @given(requests)
    def test_any_order_of_requests_and_releases(self, requests: list[tuple[int, int]]) -> None:
        pool, blocks = Pool(128, END), []
        for nbytes, choice in requests:
            if choice % 3 == 0 and blocks:
                pool.release(blocks.pop(choice % len(blocks)))
            else:
                size = aligned(nbytes)
                fitting = [hole for hole in pool.holes() if size_of(hole) >= size]
                block = pool.allocate(size)
                assert bool(block) == bool(fitting)
                if block:
                    assert offset_of(block) == offset_of(min(fitting))  # blocks sort by size, then by offset
                    assert size <= size_of(block) <= size * 10 // 9
                    blocks.append(block)
            assert_sound(pool, blocks)
        for block in blocks:
            pool.release(block)
        assert list(pool.holes()) == [block_of(END - 128, 128)]

    def test_a_step_that_repeats_finds_its_places_again(self) -> None:
        pool = Pool(0, 2**30)
        sizes = [random.Random(1).randrange(1, 1000) * GRANULE for _ in range(200)]
        steps = []
        for _ in range(3):
            blocks = [pool.allocate(size) for size in sizes]
            for block in blocks:
                pool.release(block)
            steps.append(blocks)
        assert steps[0] == steps[1] == steps[2]


class TestTop:
    def test_the_workspace_grows_down_into_what_is_free_below_it(self) -> None:
        pool = Pool(0, 4096)
        assert pool.lower_end(1024)
        assert (pool.end, pool.free) == (3072, 3072)
        block = pool.allocate(2048)
        assert not pool.lower_end(1152)
        assert pool.lower_end(1024)
        assert_sound(pool, [block])
        pool.raise_end(512)
        assert (pool.end, pool.free) == (2560, 512)
        assert_sound(pool, [block])


class TestSmallRegion:
    def test_the_lowest_slot_that_is_free(self) -> None:
        region = SmallRegion(128, 128 + 3 * GRANULE)
        assert [region.allocate() for _ in range(4)] == [128, 256, 384, 0]
        region.release(384)
        region.release(128)
        assert [region.allocate() for _ in range(3)] == [128, 384, 0]


class TestDefragmentation:
    def test_the_stretch_with_least_in_use_is_moved(self) -> None:
        # holes: a 1024, c 1024, e 1024; between them b (4096) and d (512): the stretch c d e is cheapest for 2048
        pool, (a, b, c, d, e, f) = filled(1024, 4096, 1024, 512, 1024, 128)
        for block in (a, c, e):
            pool.release(block)
        moves = make_room(pool, wanted(b, d, f), 2048)
        # best fit: the hole of 1024 at the start is smaller than the one that the stretch has become
        assert moves == {d: block_of(512, 0)}
        assert moved_bytes(moves) == (1, 512)
        assert pool.largest == 1024 + 512 + 1024
        assert_sound(pool, [b, block_of(512, 0), f])

    def test_too_little_is_free(self) -> None:
        pool, (a, b, c) = filled(1024, 128, 1024)
        pool.release(a)
        assert make_room(pool, wanted(b, c), 1152) is None
        assert make_room_below_end(pool, wanted(b, c), 1152) is None
        assert_sound(pool, [b, c])

    def test_room_for_the_workspace_is_at_the_end(self) -> None:
        pool, (a, b, c, d) = filled(1024, 512, 1024, 256)
        pool.release(a)
        pool.release(c)
        assert not pool.lower_end(1280)
        moves = make_room_below_end(pool, wanted(b, d), 1280)
        assert moves == {b: block_of(512, 0), d: block_of(256, 512)}
        assert pool.lower_end(1280)
        assert_sound(pool, list(moves.values()))

    @settings(max_examples=60)
    @given(requests, st.integers(1, END), st.booleans())
    def test_all_tensors_are_kept(self, requests: list[tuple[int, int]], request: int, below_end: bool) -> None:
        pool, blocks = Pool(0, END), []
        for nbytes, choice in requests:
            block = pool.allocate(aligned(nbytes))
            if block:
                blocks.append(block)
            if choice % 2 and blocks:
                pool.release(blocks.pop(choice % len(blocks)))
        size, free = aligned(request), pool.free
        moves = (make_room_below_end if below_end else make_room)(pool, wanted(*blocks), size)
        assert (moves is not None) == (free >= size)
        if moves is None:
            return
        assert set(moves) <= set(blocks)
        assert all(size_of(old) == size_of(new) for old, new in moves.items())
        blocks = [moves.get(block, block) for block in blocks]
        assert_sound(pool, blocks)
        assert pool.lower_end(size) if below_end else pool.allocate(size)
