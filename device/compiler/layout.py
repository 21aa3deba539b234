"""How windows lie in memory: contiguous runs, order, and when two windows walk through the same elements."""

from __future__ import annotations

from functools import lru_cache

from ..graph.ir import ITEM_BYTES, Window

Walk = tuple[str, int, tuple[tuple[int, int], ...]]


def item_bytes(dtype: str) -> int:
    """Bytes of one element."""
    return ITEM_BYTES.get(dtype, 4)


@lru_cache(maxsize=65536)
def walk(window: Window) -> Walk:
    """(dtype, offset, merged (size, stride) pairs): equal for windows whose t-th elements are the same for every t."""
    merged: list[tuple[int, int]] = []
    for size, stride in zip(window.sizes, window.strides, strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return window.dtype, window.offset, tuple(merged)


def is_dense(window: Window) -> bool:
    """One contiguous run in the order of its dimensions."""
    pairs = walk(window)[2]
    return not pairs or (len(pairs) == 1 and pairs[0][1] == 1)


def is_broadcast(window: Window) -> bool:
    """Some dimension repeats the same elements."""
    return any(stride == 0 and size > 1 for size, stride in zip(window.sizes, window.strides, strict=True))


def is_in_order(window: Window) -> bool:
    """Walks through memory from front to back without repeating: strides fall from the outer to the inner dimension."""
    strides = [stride for _, stride in walk(window)[2]]
    return all(stride > 0 for stride in strides) and strides == sorted(strides, reverse=True)


@lru_cache(maxsize=65536)
def run_bytes(window: Window) -> int:
    """Bytes of the contiguous runs that the window consists of, in whatever order; 0 where it has no gaps."""
    pairs = sorted((stride, size) for size, stride in zip(window.sizes, window.strides, strict=True) if size > 1)
    run = 1
    for stride, size in pairs:
        if stride > run:
            return run * item_bytes(window.dtype)
        if stride == run:
            run *= size
    return 0


def same_order(one: Window, other: Window) -> bool:
    """Two windows of the same sizes whose dimensions lie in memory in the same order."""

    def order(window: Window) -> list[int]:
        kept = [(stride, size) for size, stride in zip(window.sizes, window.strides, strict=True) if size > 1]
        return sorted(range(len(kept)), key=lambda position: -kept[position][0])

    return one.sizes == other.sizes and order(one) == order(other)


def covers(window: Window, nbytes: int) -> bool:
    """The window is the whole of a buffer of `nbytes`, in any order of dimensions."""
    return window.offset == 0 and not is_broadcast(window) and window.elements * item_bytes(window.dtype) == nbytes


def dense(dtype: str, *sizes: int) -> Window:
    """A contiguous window from the start of its buffer."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return Window(dtype, tuple(sizes), tuple(reversed(strides)), 0)
