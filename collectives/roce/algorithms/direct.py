"""Each card exchanges with each other one at once.

In a box every pair has cables of its own. With r bytes per second of a pair, n cards, S bytes of a rank and the latency
a of a phase (what messages and packets add left out here):

    reduce_scatter, all_gather, all_to_all   a + (S/n)/r
    all_reduce                               2 (a + (S/n)/r)     reduce-scatter, then all-gather
    reduce                                   2 (a + (S/n)/r)     reduce-scatter, then gather at the root
    broadcast                                a + S/r             up to 256 KB: the root sends all to each
                                             2 (a + (S/n)/r)     above: scatter, then all-gather
    gather, scatter, send_recv               a + S/r
    barrier                                  a

So bandwidth grows with the number of cards that take part: links to absent cards stay idle. Across boxes the same
messages share the ports that leave the box. The root is the group's first card; in send_recv each card sends to the
next.

Source: HabanaAI/HCL (direct full mesh in a box, one phase for reduce-scatter or all-gather, two for all-reduce;
broadcast changes at 256 KB).
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import fabric
from ..place import Place
from ..plan import Stage, Step
from ..traffic import Traffic
from ..wiring import Wiring
from .shapes import from_each, to_each, to_next


def direct_steps(wiring: Wiring, places: Sequence[Place], pattern: str, is_small: bool) -> list[Step]:
    """Steps of a pattern; `is_small`: a broadcast is sent whole."""
    n = len(places)
    root, others = places[0], places[1:]

    known: dict[float, Traffic] = {}  # a reduce-scatter and an all-gather look alike

    def everyone(name: str, share: float, reduces: bool = False) -> Stage:
        traffic = known.get(share)
        if traffic is None:
            traffic = known[share] = Traffic(wiring)
            traffic.everyone(places, share)
        return Stage(name, traffic, reduces, n - 1)

    if pattern == fabric.ALL_REDUCE:
        stages = [everyone("reduce-scatter", 1 / n, reduces=True), everyone("all-gather", 1 / n)]
    elif pattern == fabric.REDUCE_SCATTER:
        stages = [everyone("reduce-scatter", 1 / n, reduces=True)]
    elif pattern == fabric.ALL_GATHER:
        stages = [everyone("all-gather", 1 / n)]
    elif pattern == fabric.ALL_TO_ALL:
        stages = [everyone("all-to-all", 1 / n)]
    elif pattern == fabric.REDUCE:
        stages = [everyone("reduce-scatter", 1 / n, reduces=True), from_each(wiring, "gather", root, others, 1 / n)]
    elif pattern == fabric.BROADCAST and is_small:
        stages = [to_each(wiring, "broadcast", root, others, 1.0)]
    elif pattern == fabric.BROADCAST:
        stages = [to_each(wiring, "scatter", root, others, 1 / n), everyone("all-gather", 1 / n)]
    elif pattern == fabric.GATHER:
        stages = [from_each(wiring, "gather", root, others, 1.0)]
    elif pattern == fabric.SCATTER:
        stages = [to_each(wiring, "scatter", root, others, 1.0)]
    elif pattern == fabric.SEND_RECV:
        stages = [to_next(wiring, "send", places, 1.0)]
    else:
        stages = [everyone("barrier", 0.0)]
    return [Step((stage,)) for stage in stages]
