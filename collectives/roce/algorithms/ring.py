"""Each card passes on to the next, the last to the first.

With n cards, S bytes of a rank, and the slowest link between neighbours at b bytes per second (a pair's ports, or the
scale-out ports of the one card by which the ring leaves a box):

    reduce_scatter, all_gather   (n-1) (a + (S/n)/b)
    all_reduce                   2 (n-1) (a + (S/n)/b)
    all_to_all                   (n-1) (a + (S/2)/b)        on average half of the blocks go on
    reduce, broadcast            a chain of n-1 hops in slices of 512 KB
    gather, scatter              (n-1) (a + S/b)
    barrier                      (n-1) a

In a box this uses one pair's ports of seven.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import fabric
from ..place import Place
from ..plan import Step
from ..wiring import Wiring
from .direct import direct_steps
from .shapes import to_next


def ring_steps(wiring: Wiring, places: Sequence[Place], pattern: str, is_small: bool) -> list[Step]:
    """Steps of a pattern along the ring of places in order."""
    order, n = sorted(places), len(places)

    def around(name: str, share: float, reduces: bool = False) -> Step:
        return Step((to_next(wiring, name, order, share, reduces),), rounds=n - 1)

    if pattern == fabric.ALL_REDUCE:
        return [around("reduce-scatter", 1 / n, reduces=True), around("all-gather", 1 / n)]
    if pattern == fabric.REDUCE_SCATTER:
        return [around("reduce-scatter", 1 / n, reduces=True)]
    if pattern == fabric.ALL_GATHER:
        return [around("all-gather", 1 / n)]
    if pattern == fabric.ALL_TO_ALL:
        return [around("all-to-all", 1 / 2)]
    if pattern in (fabric.REDUCE, fabric.BROADCAST):
        stage = to_next(wiring, pattern, order, 1.0, pattern == fabric.REDUCE)
        return [Step((stage,), chain=n - 1)]
    if pattern in (fabric.GATHER, fabric.SCATTER):
        return [around(pattern, 1.0)]
    if pattern == fabric.BARRIER:
        return [around("barrier", 0.0)]
    return direct_steps(wiring, places, pattern, is_small)
