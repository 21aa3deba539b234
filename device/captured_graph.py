"""A captured graph: the recipes that ran between the beginning and the end of a capture, to be run again at one price.

A capture runs what it records, but for a dry one. A replay runs the same recipes over the same memory: the capture
holds on to it, unless `release_all_but` was called; then what the graph makes for itself is there during a replay only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .executor import LoadedRecipe

Event = tuple[int, int, int]  # address, bytes, buffer number in its graph


@dataclass(eq=False)
class Launch:
    """One recipe of a captured graph. `releases`: what nothing uses after it, in a graph that releases."""

    loaded: LoadedRecipe
    recording: Any
    buffers: tuple[tuple[int, bool, bool, int], ...]  # bytes, held a value before, is referenced afterwards, address
    releases: list[Event] = field(default_factory=list)

    @property
    def addresses(self) -> list[int]:
        return [address for _, _, _, address in self.buffers]


class CapturedGraph:
    """What one capture has recorded. `dry_run`: it was not run."""

    def __init__(self, dry_run: bool = False) -> None:
        self.dry_run = dry_run
        self.releases = False
        self.steps = 0  # of optimizers: each replay makes them again
        self.replays = 0
        self.lent: set[int] = set()  # addresses of tensors that the last replay used in place of captured ones
        self.uncounted: set[int] = set()  # addresses that stand for lent tensors and have no memory of their own
        self._launches: list[Launch] = []
        self._addresses: set[int] = set()

    def __len__(self) -> int:
        return len(self._launches)

    def __iter__(self) -> Iterator[Launch]:
        return iter(self._launches)

    def add(self, loaded: LoadedRecipe, recording: Any) -> None:
        """A graph ended during the capture."""
        launch = Launch(loaded, recording, tuple(recording.buffers()))
        self._launches.append(launch)
        self._addresses.update(launch.addresses)

    def touches(self, address: int) -> bool:
        """Whether a replay reads or writes the memory at that card address."""
        return address in self._addresses or address in self.lent

    def written(self) -> set[int]:
        """Card addresses of what a replay writes to."""
        found: set[int] = set()
        for launch in self._launches:
            for _, _, results, written, _, _, _ in launch.recording.nodes():
                found.update(launch.buffers[place[0]][3] for place in (*results, *written))
        return found

    @property
    def recipes(self) -> tuple[str, ...]:
        """Names of the recipes, in order."""
        return tuple(launch.loaded.recipe.name for launch in self._launches)

    @property
    def workspace_bytes(self) -> int:
        """The most that one of the recipes needs."""
        return max((launch.loaded.recipe.workspace_bytes for launch in self._launches), default=0)

    def counted(self, launches: Iterable[Launch]) -> list[int]:
        """Addresses of what those launches use, without those that have no memory of their own."""
        used = dict.fromkeys(address for launch in launches for address in launch.addresses)
        return [address for address in used if address not in self.uncounted]

    def release_all_but(self, kept: set[int]) -> list[Event]:
        """From now on, what the graph makes holds memory from its making to its last use only, but what lies at the
        addresses `kept`. What holds memory now and need not.
        """
        self.releases = True
        made: dict[int, tuple[Event, Launch]] = {}
        used = set()
        for launch in self._launches:
            for slot, (nbytes, resident, live, address) in enumerate(launch.buffers):
                if address in made or (not resident and live and address not in kept and address not in used):
                    made[address] = ((address, nbytes, slot), launch)
                used.add(address)
        for event, launch in made.values():
            launch.releases.append(event)
        return [event for event, _ in made.values()]

    def run(self) -> None:
        """Compute again, with new random numbers. One call into the bridge per recipe takes its turn, one runs it."""
        self.replays += 1
        for launch in self._launches:
            launch.recording.renew()
            launch.loaded.run(launch.recording)

    def clear(self) -> None:
        """Let go of the memory."""
        self.steps = 0
        self._launches.clear()
        self._addresses.clear()
        self.lent.clear()
