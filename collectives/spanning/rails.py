"""Reductions across machines.

The data is cut into rounds, a round into as many parts as the smallest machine has ranks: the rails. On every machine
one rank owns a rail. The others hand it their contributions, and the owners of a rail form a chain in the order of the
machines: each adds its machine's ranks, in order, to what the one before it has sent. The last has the result and sends
it to the other owners, which pass it on within their machines. Meanwhile the next round is on its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..exchange import AllGather, AllReduce, Broadcast, Gather, ReduceScatter
from .accumulate import Accumulator
from .crossing import Crossing
from .layout import Layout

RAIL_BYTES = 1 << 20  # of one rail in one round
_AHEAD = 2  # rounds that are on their way while an earlier one's result is awaited


class RailPlan(Protocol):
    """How one operation's data lies on the rails."""

    rounds: int

    def contributions(self, turn: int) -> list[np.ndarray]:
        """What this rank gives to each rail."""
        ...

    def wanted(self, turn: int, rail: int, machine: int) -> slice:
        """Which elements of a rail's result a machine needs."""
        ...

    def spread(self, crossing: Crossing, turn: int, result: np.ndarray | None) -> None:
        """Pass results on within this machine; `result` is what it needs of its rail, where this rank owns one."""
        ...


def reduce_on_rails(crossing: Crossing, accumulator: Accumulator, plan: RailPlan) -> None:
    """Run a reduction."""
    layout = crossing.layout
    rail = layout.index if layout.index < layout.rails else None
    ahead = 0 if layout.is_last else _AHEAD
    own: dict[int, np.ndarray] = {}
    for turn in range(plan.rounds + ahead):
        if turn < plan.rounds:
            rows = _collect(crossing, plan.contributions(turn), accumulator.stored)
            if rail is not None:
                own[turn] = _add(crossing, accumulator, plan, turn, rail, rows)
        if turn >= ahead:
            done = turn - ahead
            result = own.pop(done) if rail is not None else None
            if result is not None and not layout.is_last:
                crossing.receive(layout.machines[-1][layout.index], result)
            plan.spread(crossing, done, result)
    crossing.finish()


def _collect(crossing: Crossing, parts: Sequence[np.ndarray], stored: np.dtype) -> Sequence[np.ndarray]:
    """All ranks' contributions to our rail; of no elements, where we own none."""
    count = len(crossing.layout.mates)
    empty = np.empty(0, stored)
    blocks = [*parts, *([empty] * (count - len(parts)))]
    rows = list(np.empty((count, len(blocks[crossing.layout.index])), stored))
    crossing.hand_over(blocks, rows, [[len(block) for block in blocks]] * count)
    return rows


def _add(
    crossing: Crossing,
    accumulator: Accumulator,
    plan: RailPlan,
    turn: int,
    rail: int,
    rows: Sequence[np.ndarray],
) -> np.ndarray:
    """Our machine's link of the chain; returns the result for our machine, or the room for it."""
    layout = crossing.layout
    before = None
    if not layout.is_first:
        before = np.empty(len(rows[0]), accumulator.partial)
        crossing.receive(layout.machines[layout.machine - 1][rail], before)
    wanted = plan.wanted(turn, rail, layout.machine)
    if not layout.is_last:
        crossing.post(layout.machines[layout.machine + 1][rail], accumulator.handed_on(before, rows))
        return np.empty(wanted.stop - wanted.start, accumulator.stored)
    result = accumulator.result(before, rows)
    for machine in layout.others:
        crossing.post(layout.machines[machine][rail], result[plan.wanted(turn, rail, machine)])
    return result[wanted]


class AllReducePlan:
    """All-reduce, or reduce to `root` (a place)."""

    def __init__(self, exchange: AllReduce, layout: Layout) -> None:
        self._data = exchange.data
        self._root = exchange.root
        self._layout = layout
        self._part = min(max(1, RAIL_BYTES // exchange.dtype.itemsize), -(-len(self._data) // layout.rails))
        self._round = self._part * layout.rails
        self.rounds = -(-len(self._data) // self._round)

    def _rail(self, turn: int, rail: int) -> np.ndarray:
        low = turn * self._round + rail * self._part
        return self._data[low : low + self._part]

    def contributions(self, turn: int) -> list[np.ndarray]:
        return [self._rail(turn, rail) for rail in range(self._layout.rails)]

    def wanted(self, turn: int, rail: int, machine: int) -> slice:
        is_wanted = self._root is None or self._root in self._layout.machines[machine]
        return slice(0, len(self._rail(turn, rail)) if is_wanted else 0)

    def spread(self, crossing: Crossing, turn: int, result: np.ndarray | None) -> None:
        layout, root = self._layout, self._root
        index, count = layout.index, len(layout.mates)
        if root is not None and root not in layout.mates:
            return
        if root is None and layout.rails == 1:
            part = self._rail(turn, 0)
            if result is not None:
                part[:] = result
            crossing.exchange(Broadcast(index, count, part, 0))
            return
        # Every rank gives a part of full length, whether it owns a rail or not.
        given = np.zeros(self._part, self._data.dtype)
        if result is not None:
            given[: len(result)] = result
        parts = [self._rail(turn, rail) if rail < layout.rails else given[:0] for rail in range(count)]
        outputs = [part if len(part) == self._part else np.empty(self._part, part.dtype) for part in parts]
        if root is None:
            crossing.exchange(AllGather(index, count, given, outputs))
        else:
            outputs = outputs if root == layout.own else []
            crossing.exchange(Gather(index, count, given, outputs, layout.mates.index(root)))
            if root != layout.own:
                return
        for part, output in zip(parts, outputs, strict=True):
            if part is not output:
                part[:] = output[: len(part)]


class ReduceScatterPlan:
    """A rail carries its part of every rank's block, in the order of the machines, so each machine needs one slice."""

    def __init__(self, exchange: ReduceScatter, layout: Layout) -> None:
        self._blocks = exchange.blocks
        self._output = exchange.output
        self._layout = layout
        self._order = [place for places in layout.machines for place in places]
        most = max(1, RAIL_BYTES // (exchange.dtype.itemsize * layout.ranks))
        self._part = min(most, -(-exchange.items // layout.rails))
        self._round = self._part * layout.rails
        self.rounds = -(-exchange.items // self._round)

    def _of(self, array: np.ndarray, turn: int, rail: int) -> np.ndarray:
        low = turn * self._round + rail * self._part
        return array[low : low + self._part]

    def _lengths(self, turn: int, rail: int, places: Sequence[int]) -> list[int]:
        return [len(self._of(self._blocks[place], turn, rail)) for place in places]

    def contributions(self, turn: int) -> list[np.ndarray]:
        rails = range(self._layout.rails)
        return [np.concatenate([self._of(self._blocks[place], turn, rail) for place in self._order]) for rail in rails]

    def wanted(self, turn: int, rail: int, machine: int) -> slice:
        before = [place for places in self._layout.machines[:machine] for place in places]
        start = sum(self._lengths(turn, rail, before))
        return slice(start, start + sum(self._lengths(turn, rail, self._layout.machines[machine])))

    def spread(self, crossing: Crossing, turn: int, result: np.ndarray | None) -> None:
        layout = self._layout
        indices = range(len(layout.mates))
        empty = np.empty(0, self._output.dtype)
        lengths = [
            self._lengths(turn, rail, layout.mates) if rail < layout.rails else [0] * len(layout.mates)
            for rail in indices
        ]
        sent = [empty] * len(layout.mates)
        if result is not None:
            sent = np.split(result, np.cumsum(lengths[layout.index])[:-1])
        targets = [self._of(self._output, turn, rail) if rail < layout.rails else empty for rail in indices]
        crossing.hand_over(sent, targets, lengths)
