"""What the host has issued and not waited for, by the memory that it touches: which activity must follow which.

Kept by the program's order alone, not by modelled moments, so that a run scheduled on another card has the same
dependencies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from .captured_graph import CapturedGraph
from .timeline import Timeline

RECENT = 1024  # recipes remembered; older ones lie behind the launch queue


class InFlight:
    """Copies to the card by device address, recipes by the epoch of their graph, and the last replay of each captured
    graph, as activities of the timeline.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._copies: dict[int, int] = {}
        self._recipes: dict[int, int] = {}
        self._replays: WeakKeyDictionary[CapturedGraph, int] = WeakKeyDictionary()

    def before_launch(self, recording: Any) -> tuple[int, ...]:
        """How many activities ago the copies were issued that a graph uses. They count as waited for from here on."""
        if not self._copies:
            return ()
        return self._waited_for(recording.uses(list(self._copies)))

    def before_replay(self, captured: CapturedGraph) -> tuple[int, ...]:
        """The same of a captured graph that runs again."""
        return self._waited_for([address for address in self._copies if captured.touches(address)])

    def before_collective(self, addresses: Sequence[int]) -> tuple[int, ...]:
        """The same of a collective on the storages at those addresses."""
        if not self._copies:
            return ()
        return self._waited_for([address for address in dict.fromkeys(addresses) if address in self._copies])

    def _waited_for(self, addresses: list[int]) -> tuple[int, ...]:
        return tuple(sorted({self._timeline.distance(self._copies.pop(address)) for address in addresses}))

    def launched(self, epoch: int, activity: int) -> None:
        """A graph runs as that activity."""
        self._recipes[epoch] = activity
        if len(self._recipes) > RECENT:
            del self._recipes[next(iter(self._recipes))]

    def replayed(self, captured: CapturedGraph, activity: int) -> None:
        """The last recipe of a captured graph runs again as that activity."""
        self._replays[captured] = activity

    def before_copy(self, address: int, epoch: int) -> tuple[int, ...]:
        """How many activities ago the last uses of a block were issued: a copy from or to it follows them."""
        last = {self._copies.get(address), self._recipes.get(epoch)}
        last.update(number for captured, number in self._replays.items() if captured.touches(address))
        return tuple(sorted(self._timeline.distance(number) for number in last if number is not None))

    def copied(self, address: int, activity: int) -> None:
        """A copy to the block runs as that activity, and the host does not wait for it."""
        self._copies[address] = activity

    def settled(self) -> None:
        """The host has waited for everything."""
        self._copies.clear()
        self._recipes.clear()
        self._replays.clear()
