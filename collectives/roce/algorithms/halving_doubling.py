"""Partners at distances 1, 2, 4, ... in the order of places, so that the largest exchanges stay in the box.

Of n cards the p = 2^k that fit take part; each of the others first hands its data to a partner and is given the result
at the end (Thakur, Rabenseifner and Gropp, 2005). With b bytes per second of the busiest link in each round:

    reduce_scatter   rounds of S/2, S/4, ... S/p
    all_gather       the same backwards
    all_reduce       both
    all_to_all       rounds in which half of the blocks move (Bruck), n not rounded down
    broadcast        up to 256 KB a binomial tree; above scatter (rounds of S/2, S/4, ...), then all-gather
    reduce           reduce-scatter, then gather (the scatter backwards)
    gather, scatter  rounds of 1, 2, 4, ... blocks at the root
    barrier          rounds of empty messages
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import fabric
from ..place import Place
from ..plan import Step
from ..wiring import Wiring
from .direct import direct_steps
from .shapes import exchange


class _Cube:
    def __init__(self, wiring: Wiring, places: Sequence[Place]) -> None:
        self.wiring, self.order, self.n = wiring, sorted(places), len(places)
        self.bits = self.n.bit_length() - 1
        self.p = 1 << self.bits
        self.extra = [(self.order[self.p + index], self.order[index]) for index in range(self.n - self.p)]

    def _round(self, name: str, ends: Sequence[tuple[int, int]], share: float, reduces: bool = False) -> Step:
        pairs = [(self.order[source], self.order[target]) for source, target in ends]
        return Step((exchange(self.wiring, name, pairs, share, reduces),))

    def _partners(self, bit: int) -> list[tuple[int, int]]:
        return [(card, card ^ (1 << bit)) for card in range(self.p)]

    def hand_in(self, share: float, reduces: bool) -> list[Step]:
        """The cards beyond 2^k give what they have to a partner."""
        if not self.extra:
            return []
        return [Step((exchange(self.wiring, "hand in", self.extra, share, reduces),))]

    def hand_back(self, share: float) -> list[Step]:
        if not self.extra:
            return []
        back = [(partner, card) for card, partner in self.extra]
        return [Step((exchange(self.wiring, "hand back", back, share),))]

    def halving(self) -> list[Step]:
        return [
            self._round(f"reduce-scatter, distance {1 << bit}", self._partners(bit), 0.5 ** (bit + 1), True)
            for bit in range(self.bits)
        ]

    def doubling(self) -> list[Step]:
        return [
            self._round(f"all-gather, distance {1 << bit}", self._partners(bit), 0.5 ** (bit + 1))
            for bit in reversed(range(self.bits))
        ]

    def tree(self, name: str, unit: float | None, to_root: bool) -> list[Step]:
        """A binomial tree of all n cards at the root: the whole message in each round (`unit` None), or `unit` for
        each card that stands behind the receiver.
        """
        steps = []
        for bit in reversed(range((self.n - 1).bit_length())):
            distance = 1 << bit
            ends = [(card, card + distance) for card in range(0, self.n - distance, 2 * distance)]
            if to_root:
                ends = [(target, source) for source, target in ends]
            share = 1.0 if unit is None else unit * min(distance, self.n - distance)
            steps.append(self._round(f"{name}, distance {distance}", ends, share))
        return steps[::-1] if to_root else steps

    def rounds(self, name: str, unit: float) -> list[Step]:
        """Every card sends to the one at distance 1, 2, 4, ... around: `unit` for each block whose distance has that
        bit.
        """
        steps = []
        for bit in range((self.n - 1).bit_length()):
            blocks = sum(1 for block in range(self.n) if block >> bit & 1)
            ends = [(card, (card + (1 << bit)) % self.n) for card in range(self.n)]
            steps.append(self._round(f"{name}, distance {1 << bit}", ends, unit * blocks))
        return steps


def halving_doubling_steps(wiring: Wiring, places: Sequence[Place], pattern: str, is_small: bool) -> list[Step]:
    """Steps of a pattern; `is_small`: a broadcast is sent whole."""
    cube = _Cube(wiring, places)
    n = cube.n
    if pattern == fabric.ALL_REDUCE:
        return [*cube.hand_in(1.0, True), *cube.halving(), *cube.doubling(), *cube.hand_back(1.0)]
    if pattern == fabric.REDUCE_SCATTER:
        return [*cube.hand_in(1.0, True), *cube.halving(), *cube.hand_back(1 / n)]
    if pattern == fabric.ALL_GATHER:
        return [*cube.hand_in(1 / n, False), *cube.doubling(), *cube.hand_back(1.0)]
    if pattern == fabric.ALL_TO_ALL:
        return cube.rounds("all-to-all", 1 / n)
    if pattern == fabric.REDUCE:
        return [*cube.hand_in(1.0, True), *cube.halving(), *cube.tree("gather", 1 / n, to_root=True)]
    if pattern == fabric.BROADCAST and is_small:
        return cube.tree("broadcast", None, to_root=False)
    if pattern == fabric.BROADCAST:
        return [*cube.tree("scatter", 1 / n, to_root=False), *cube.doubling(), *cube.hand_back(1.0)]
    if pattern == fabric.GATHER:
        return cube.tree("gather", 1.0, to_root=True)
    if pattern == fabric.SCATTER:
        return cube.tree("scatter", 1.0, to_root=False)
    if pattern == fabric.BARRIER:
        return cube.rounds("barrier", 0.0)
    return direct_steps(wiring, places, pattern, is_small)
