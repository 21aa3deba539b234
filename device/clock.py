"""Modelled time of one card, in seconds from the start of the process.

Two lines of time: the host, which records, compiles and launches, and the card's compute stream, which runs recipes
one after another. Left out: everything the user's own Python does between operators.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """`host` is where the host stands; `stream` is when the card will have finished what was launched."""

    host: float = 0.0
    stream: float = 0.0

    @property
    def now(self) -> float:
        """The end of all work so far."""
        return max(self.host, self.stream)

    def work(self, seconds: float) -> None:
        """The host is busy."""
        self.host += seconds

    def launch(self, duration: float) -> float:
        """Put work on the stream: it starts when the host has launched it and the stream is free. Returns its start."""
        start = max(self.host, self.stream)
        self.stream = start + duration
        return start

    def wait(self) -> None:
        """The host waits for the card."""
        self.host = max(self.host, self.stream)

    def advance_to(self, moment: float) -> None:
        """Host and card both stand at `moment` at the earliest: the end of a collective."""
        self.host = max(self.host, moment)
        self.stream = max(self.stream, moment)
