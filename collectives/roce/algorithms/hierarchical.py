"""Boxes of equally many cards: in the box each to each, across boxes the cards of one index (a rail), both at once.

With m cards in each of D boxes, n = m D, pair rate r, rate q of a card's ports out (behind switches), S bytes a rank:

    reduce_scatter   in the box D parts of S/n to each other card: t1 = (S/m)/r; then each card sends its sum of another
                     box's part to its rail there: t2 = (D-1)/D (S/m)/q. Overlapped in slices of 512 KB: `plan.py`.
    all_gather       the mirror: first the rails, then the box
    all_reduce       reduce-scatter, then all-gather: about 2 max(t1, t2), and the fill of the pipelines
    all_to_all       in the box what each rail is to carry, (S/m)/r; on the rails (D-1)/D S/q
    scatter, gather  in the root's box the D parts of each rail, D S/r; on the rails (D-1) S/q at the root's box
    reduce           reduce-scatter, then gather
    broadcast        up to 256 KB whole: root to its rail, then these in their boxes; above: scatter, then all-gather
    barrier          in the box, then on the rails
    send_recv        as `direct`

Source: HabanaAI/HCL for reduce-scatter, all-gather, all-reduce and the slices; hardware documentation of Gaudi3 (docs.
habana.ai, Network Configuration) for their limits and that of all_to_all. The order within the others is assumed.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import fabric
from ..place import Place
from ..plan import Stage, Step
from ..traffic import Traffic
from ..wiring import Wiring
from .direct import direct_steps
from .shapes import to_each


class _Boxes:
    """The members of each box and the rails across."""

    def __init__(self, wiring: Wiring, places: Sequence[Place]) -> None:
        members: dict[tuple[int, int], list[Place]] = {}
        for place in places:
            members.setdefault(wiring.domain(place), []).append(place)
        # The root, the first place, stands at the head of its box and of its rail, and its box at the head of boxes.
        root_first = sorted(members.pop(wiring.domain(places[0])))
        index = root_first.index(places[0])
        boxes = [root_first, *(sorted(box) for _, box in sorted(members.items()))]
        self.wiring = wiring
        self.boxes = [[box[index], *box[:index], *box[index + 1 :]] for box in boxes]
        self.rails = [list(rail) for rail in zip(*self.boxes, strict=True)]
        self.n, self.m, self.d = len(places), len(self.rails), len(self.boxes)
        self._known: dict[tuple[str, float, int], Traffic] = {}  # a reduce-scatter and an all-gather look alike

    def inside(self, name: str, share: float, messages: int, reduces: bool = False) -> Stage | None:
        """Each card of a box to each other one."""
        if self.m == 1:
            return None
        traffic = self._known.get(("inside", share, messages))
        if traffic is None:
            traffic = self._known["inside", share, messages] = Traffic(self.wiring)
            for box in self.boxes:
                traffic.pairs(box, share, messages)
        return Stage(f"{name} in the box", traffic, reduces, self.m - 1)

    def across(self, name: str, share: float, reduces: bool = False) -> Stage:
        """Each card of a rail to each other one."""
        traffic = self._known.get(("across", share, 1))
        if traffic is None:
            traffic = self._known["across", share, 1] = Traffic(self.wiring)
            for rail in self.rails:
                traffic.across(rail, rail, share)
        return Stage(f"{name} across boxes", traffic, reduces, self.d - 1)

    def out(self, name: str, share: float) -> tuple[Stage | None, Stage]:
        """From the root over its box to all rails: each rank's own message of `share`."""
        inside = None
        if self.m > 1:
            traffic = Traffic(self.wiring)
            for other in self.boxes[0][1:]:
                traffic.send(self.boxes[0][0], other, share, self.d)
            inside = Stage(f"{name} in the box", traffic)
        traffic = Traffic(self.wiring)
        for rail in self.rails:
            traffic.across(rail[:1], rail[1:], share)
        return inside, Stage(f"{name} across boxes", traffic)

    def back(self, name: str, share: float) -> tuple[Stage, Stage | None]:
        """The mirror of `out`: every rank's message comes to the root."""
        traffic = Traffic(self.wiring)
        for rail in self.rails:
            traffic.across(rail[1:], rail[:1], share)
        across, inside = Stage(f"{name} across boxes", traffic), None
        if self.m > 1:
            traffic = Traffic(self.wiring)
            for other in self.boxes[0][1:]:
                traffic.send(other, self.boxes[0][0], share, self.d)
            inside = Stage(f"{name} in the box", traffic)
        return across, inside

    def overlapped(self, first: Stage | None, second: Stage | None, part: float) -> Step:
        """A step of a phase in the box, in D parts, and one across boxes, in D - 1 parts, in either order."""
        if first is None or second is None:
            return Step(tuple(stage for stage in (first, second) if stage is not None))
        is_outward = first.name.endswith("in the box")
        slices = (self.d, self.d - 1) if is_outward else (self.d - 1, self.d)
        return Step((first, second), slices=slices, part=part)


def hierarchical_steps(wiring: Wiring, places: Sequence[Place], pattern: str, is_small: bool) -> list[Step]:
    """Steps of a pattern among boxes of equally many cards; `is_small`: a broadcast is sent whole."""
    boxes = _Boxes(wiring, places)
    n, d = boxes.n, boxes.d

    def reduce_scatter() -> Step:
        inside = boxes.inside("reduce-scatter", 1 / n, d, reduces=True)
        return boxes.overlapped(inside, boxes.across("reduce-scatter", 1 / n, reduces=True), 1 / n)

    def all_gather() -> Step:
        return boxes.overlapped(boxes.across("all-gather", 1 / n), boxes.inside("all-gather", 1 / n, d), 1 / n)

    if pattern == fabric.ALL_REDUCE:
        return [reduce_scatter(), all_gather()]
    if pattern == fabric.REDUCE_SCATTER:
        return [reduce_scatter()]
    if pattern == fabric.ALL_GATHER:
        return [all_gather()]
    if pattern == fabric.ALL_TO_ALL:
        return [boxes.overlapped(boxes.inside("all-to-all", 1 / n, d), boxes.across("all-to-all", 1 / d), 1 / d)]
    if pattern == fabric.REDUCE:
        return [reduce_scatter(), boxes.overlapped(*boxes.back("gather", 1 / n), 1 / n)]
    if pattern == fabric.BROADCAST and is_small:
        root, rail = boxes.boxes[0][0], boxes.rails[0]
        across = to_each(wiring, "broadcast across boxes", root, rail[1:], 1.0)
        steps = [Step((across,))]
        if boxes.m > 1:
            traffic = Traffic(wiring)
            for box in boxes.boxes:
                for other in box[1:]:
                    traffic.send(box[0], other, 1.0)
            steps.append(Step((Stage("broadcast in the box", traffic),)))
        return steps
    if pattern == fabric.BROADCAST:
        return [boxes.overlapped(*boxes.out("scatter", 1 / n), 1 / n), all_gather()]
    if pattern == fabric.GATHER:
        return [boxes.overlapped(*boxes.back("gather", 1.0), 1.0)]
    if pattern == fabric.SCATTER:
        return [boxes.overlapped(*boxes.out("scatter", 1.0), 1.0)]
    if pattern == fabric.BARRIER:
        inside = boxes.inside("barrier", 0.0, 1)
        return [*([Step((inside,))] if inside else []), Step((boxes.across("barrier", 0.0),))]
    return direct_steps(wiring, places, pattern, is_small)
