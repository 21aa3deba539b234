"""Phases that several algorithms have in common."""

from __future__ import annotations

from collections.abc import Sequence

from ..place import Place
from ..plan import Stage
from ..traffic import Traffic
from ..wiring import Wiring


def to_each(wiring: Wiring, name: str, root: Place, others: Sequence[Place], share: float) -> Stage:
    """The root sends each other card a message of its own."""
    traffic = Traffic(wiring)
    for other in others:
        traffic.send(root, other, share)
    return Stage(name, traffic)


def from_each(wiring: Wiring, name: str, root: Place, others: Sequence[Place], share: float) -> Stage:
    """Each other card sends the root a message."""
    traffic = Traffic(wiring)
    for other in others:
        traffic.send(other, root, share)
    return Stage(name, traffic)


def to_next(wiring: Wiring, name: str, places: Sequence[Place], share: float, reduces: bool = False) -> Stage:
    """Each card sends to the next one, the last to the first."""
    traffic = Traffic(wiring)
    for source, target in zip(places, (*places[1:], places[0]), strict=True):
        traffic.send(source, target, share)
    return Stage(name, traffic, reduces)


def exchange(
    wiring: Wiring,
    name: str,
    pairs: Sequence[tuple[Place, Place]],
    share: float,
    reduces: bool = False,
) -> Stage:
    """The first of each pair sends to the second."""
    traffic = Traffic(wiring)
    for source, target in pairs:
        traffic.send(source, target, share)
    return Stage(name, traffic, reduces)
