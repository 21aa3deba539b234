"""Snapshots of a card's report, pushed by its process to the driver while the script runs and once at its
end.

A snapshot is what `Card.report()` returns (plain data; modelled seconds, bytes), plus `compile_seconds`, the
sum over all compilations. A live snapshot leaves out the list of single compilations, which grows with the
run.
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
    """Sends a live snapshot every `PERIOD` seconds where the report has changed."""

    def __init__(self, report: Callable[[], Snapshot | None], channel: Channel) -> None:
        super().__init__(name="hpucluster-snapshots", daemon=True)
        self._report = report
        self._channel = channel
        self._stopped = threading.Event()

    def run(self) -> None:
        """Push snapshots until `finish` is called or the driver has gone."""
        previous: Snapshot | None = None
        period = PERIOD
        while not self._stopped.wait(period):
            begin = time.monotonic()
            report = self._report()
            # A report grows with the number of compilations, and takes its time from the script.
            period = max(PERIOD, (time.monotonic() - begin) / LARGEST_SHARE)
            if report is None:
                continue
            snapshot = live_snapshot(report)
            if snapshot == previous:
                continue
            try:
                self._channel.send({"event": "snapshot", "snapshot": snapshot})
            except OSError:
                return  # the driver has gone; the channel's reader ends this process
            previous = snapshot

    def finish(self) -> None:
        """Stop, and send the final snapshot, with every compilation."""
        self._stopped.set()
        report = self._report()
        if report is not None:
            self._channel.send({"event": "snapshot", "snapshot": with_compile_seconds(report)})


def with_compile_seconds(report: Snapshot) -> Snapshot:
    """The report with the sum of its compilations' modelled seconds."""
    total = sum(float(compilation["seconds"]) for compilation in report.get("compilations", ()))
    return {**report, "compile_seconds": total}


def live_snapshot(report: Snapshot) -> Snapshot:
    """The report without the list of single compilations."""
    snapshot = with_compile_seconds(report)
    snapshot.pop("compilations", None)
    return snapshot


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
