"""Snapshots of a card's report, pushed by its process to the driver while the script runs and once at its
end.

A live snapshot is what `Card.figures()` returns (plain data; modelled seconds, bytes); the last one is the whole
`Card.report()`, with what grows with the run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from .control import Channel

Snapshot = dict[str, Any]

PERIOD = 1.0
"""Seconds between two live snapshots."""

LARGEST_SHARE = 0.01
"""Share of the time that making snapshots may take."""


class SnapshotThread(threading.Thread):
    """Sends the card's figures every `PERIOD` seconds where they have changed, and its report at the end."""

    def __init__(
        self, figures: Callable[[], Snapshot | None], report: Callable[[], Snapshot | None], channel: Channel
    ) -> None:
        super().__init__(name="hpucluster-snapshots", daemon=True)
        self._figures = figures
        self._report = report
        self._channel = channel
        self._stopped = threading.Event()
        self._sending = threading.Lock()

    def run(self) -> None:
        """Push snapshots until `finish` is called or the driver has gone."""
        previous: Snapshot | None = None
        period = PERIOD
        while not self._stopped.wait(period):
            begin = time.monotonic()
            snapshot = self._figures()
            # They take their time from the script.
            period = max(PERIOD, (time.monotonic() - begin) / LARGEST_SHARE)
            if snapshot is None or snapshot == previous:
                continue
            with self._sending:
                if self._stopped.is_set():
                    return  # the report was sent meanwhile, and is the last word
                try:
                    self._channel.send({"event": "snapshot", "snapshot": snapshot})
                except OSError:
                    return  # the driver has gone; the channel's reader ends this process
            previous = snapshot

    def finish(self) -> None:
        """Stop, and send the whole report."""
        with self._sending:
            self._stopped.set()
        report = self._report()
        if report is not None:
            self._channel.send({"event": "snapshot", "snapshot": report})


class SnapshotBoard:
    """The latest snapshot of each rank, written by the driver's loop and read by the metrics server's
    threads.
    """

    def __init__(self, ranks: int) -> None:
        self._latest: list[Snapshot | None] = [None] * ranks

    def put(self, rank: int, snapshot: Snapshot) -> None:
        """Keep `snapshot` as the rank's latest."""
        self._latest[rank] = snapshot

    def get(self, rank: int) -> Snapshot | None:
        """The rank's latest snapshot; None where its script has not used the device."""
        return self._latest[rank]
