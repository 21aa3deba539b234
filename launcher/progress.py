"""What a waiting user sees while Ray and the cards start: a spinner on a terminal, else a plain line."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.status import Status

from hpucluster.outcome import Phase

from .messages import say


class Progress:
    """Shows the phases of a job on standard error. `what`: the cards, such as `8 gaudi2 cards`."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._console = Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._begin = time.monotonic()

    def enter(self, phase: Phase) -> None:
        """A phase begins."""
        if phase is Phase.RAY:
            self._begin = time.monotonic()
            self._show(f"starting {self._what}: Ray ...")
        elif phase is Phase.CARDS:
            self._show(f"starting {self._what}: loading the device ...", plain=False)
        elif phase is Phase.SCRIPT:
            self.stop()
            say(f"{self._what} ready after {time.monotonic() - self._begin:.1f} s")
        else:
            self.stop()

    def _show(self, text: str, plain: bool = True) -> None:
        if self._console.is_terminal:
            if self._status is None:
                self._status = self._console.status(f"hpurun: {text}")
                self._status.start()
            self._status.update(f"hpurun: {text}")
        elif plain:
            say(text)

    def stop(self) -> None:
        """Remove the spinner."""
        if self._status is not None:
            self._status.stop()
            self._status = None
            sys.stderr.flush()
