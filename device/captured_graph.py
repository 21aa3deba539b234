"""A captured graph: the recipes that ran between the beginning and the end of a capture, to be run again at one price.

A capture runs what it records. A replay runs the same recipes over the same memory: the capture holds on to it.
"""

from __future__ import annotations

from typing import Any

from .executor import LoadedRecipe


class CapturedGraph:
    """What one capture has recorded."""

    def __init__(self) -> None:
        self.steps = 0  # of optimizers: each replay makes them again
        self._launches: list[tuple[LoadedRecipe, Any]] = []
        self._addresses: set[int] = set()

    def __len__(self) -> int:
        return len(self._launches)

    def add(self, loaded: LoadedRecipe, recording: Any) -> None:
        """A graph ended during the capture, and has run."""
        self._launches.append((loaded, recording))
        self._addresses.update(address for _, _, _, address in recording.buffers())

    def touches(self, address: int) -> bool:
        """Whether a replay reads or writes the memory at that card address."""
        return address in self._addresses

    @property
    def recipes(self) -> tuple[str, ...]:
        """Names of the recipes, in order."""
        return tuple(loaded.recipe.name for loaded, _ in self._launches)

    @property
    def workspace_bytes(self) -> int:
        """The most that one of the recipes needs."""
        return max((loaded.recipe.workspace_bytes for loaded, _ in self._launches), default=0)

    def run(self) -> None:
        """Compute again, with new random numbers."""
        for loaded, recording in self._launches:
            recording.renew()
            loaded.run(recording)

    def clear(self) -> None:
        """Let go of the memory."""
        self.steps = 0
        self._launches.clear()
        self._addresses.clear()
