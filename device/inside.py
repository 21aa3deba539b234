"""Collectives that are part of recipes: where they stand in what was launched last, and what they hold up."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Inside:
    """The recipes of one launch, or of one replay, on `stream`. Moments in modelled seconds.

    `end` is when the last of them ends, with what their collectives have added so far.
    """

    stream: int = 0
    end: float = 0.0
    _positions: list[float] = field(default_factory=list)
    _delay: float = 0.0
    _taken: int = 0

    def place(self, collectives: tuple[float, ...], start: float, end: float) -> None:
        """A recipe runs from `start` to `end`, its collectives begin so long after its start."""
        self._positions += [start + offset for offset in collectives]
        self.end = end

    def next(self) -> float:
        """When the next collective begins; at the end of all where the compiler knows of no further one."""
        self._taken += 1
        return self._position()

    def wait(self, end: float) -> float:
        """The collective that `next` gave is over at `end`: by how many seconds all that comes after it is late."""
        lost = max(0.0, end - self._position())
        self._delay += lost
        self.end += lost
        return lost

    def _position(self) -> float:
        number = self._taken - 1
        return self._positions[number] + self._delay if number < len(self._positions) else self.end
