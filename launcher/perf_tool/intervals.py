"""Sets of moments as arrays of disjoint intervals in order: shape (n, 2), begin and end, in one unit throughout."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Intervals = NDArray[np.float64]

NONE: Intervals = np.empty((0, 2))


def union(parts: Iterable[Intervals]) -> Intervals:
    """All moments in any of the parts, whose intervals may overlap and stand in any order."""
    rows = np.concatenate([NONE, *parts])
    rows = rows[rows[:, 1] > rows[:, 0]]
    if not len(rows):
        return NONE
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    reached = np.maximum.accumulate(rows[:, 1])
    begins = np.concatenate([[True], rows[1:, 0] > reached[:-1]])
    ends = np.concatenate([begins[1:], [True]])
    return np.column_stack([rows[begins, 0], reached[ends]])


def bridged(inside: Intervals, gap: float) -> Intervals:
    """`inside` and its gaps up to that length."""
    if not len(inside):
        return NONE
    ends = np.concatenate([inside[1:, 0] - inside[:-1, 1] > gap, [True]])
    begins = np.concatenate([[True], ends[:-1]])
    return np.column_stack([inside[begins, 0], inside[ends, 1]])


def complement(inside: Intervals, begin: float, end: float) -> Intervals:
    """The moments from `begin` to `end` that are not in `inside`."""
    bounds = np.concatenate([[begin], np.clip(inside, begin, end).ravel(), [end]]).reshape(-1, 2)
    return bounds[bounds[:, 1] > bounds[:, 0]]


def intersection(one: Intervals, other: Intervals) -> Intervals:
    """The moments in both."""
    if not len(one) or not len(other):
        return NONE
    begin, end = min(one[0, 0], other[0, 0]), max(one[-1, 1], other[-1, 1])
    outside = union([complement(one, begin, end), complement(other, begin, end)])
    return complement(outside, begin, end)


def length(inside: Intervals) -> float:
    """How much time it is."""
    return float((inside[:, 1] - inside[:, 0]).sum())
