"""Where a rank's card stands: which box, and which of its modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Place:
    """One card of the fabric: module `module` of box `box`, both counted from 0. Printed as `box.module`."""

    box: int
    module: int

    def __str__(self) -> str:
        return f"{self.box}.{self.module}"


def places(ranks: Sequence[int], modules: Mapping[int, int | None], cards_per_box: int) -> dict[int, Place]:
    """The place of each of `ranks`.

    Rank r stands in box r // `cards_per_box`. Inside a box the modules that ranks report are believed if all ranks of
    that box in `ranks` report different ones below `cards_per_box`; else rank r is module r % `cards_per_box`. So
    modelled time does not depend on how ranks are spread over machines, each of which numbers its cards from 0.
    """
    boxes: dict[int, list[int]] = {}
    for rank in ranks:
        boxes.setdefault(rank // cards_per_box, []).append(rank)
    found: dict[int, Place] = {}
    for box, members in boxes.items():
        told = [modules.get(rank) for rank in members]
        valid = {module for module in told if module is not None and 0 <= module < cards_per_box}
        believed = len(valid) == len(members)
        for rank, module in zip(members, told, strict=True):
            if not believed or module is None:
                module = rank % cards_per_box
            found[rank] = Place(box, module)
    return found
