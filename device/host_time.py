"""The time that the user's own code takes between calls of the card, measured on this machine.

Left out of modelled time by default: it depends on this machine. With `--host-time measured` the card adds it.
"""

from __future__ import annotations

import time
from typing import Any


class UserCode:
    """Measures wall-clock time outside the recorder, the replay and the card."""

    def __init__(self, bridge: Any) -> None:
        self._bridge = bridge
        bridge.measure_inside(True)
        self._since = time.perf_counter()
        self._inside = bridge.inside_seconds()

    def elapsed(self) -> float:
        """Seconds of the user's code since the last `resume` or `elapsed`."""
        now, inside = time.perf_counter(), self._bridge.inside_seconds()
        seconds = (now - self._since) - (inside - self._inside)
        self._since, self._inside = now, inside
        return max(0.0, seconds)

    def resume(self) -> None:
        """What was done since the last `elapsed` was the card's: the user's code goes on here."""
        self._since, self._inside = time.perf_counter(), self._bridge.inside_seconds()
