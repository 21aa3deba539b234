"""Watches over the ranks of a job: places the cards' processes, starts the script, and ends all when one
fails.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from pathlib import Path
from typing import Any

from .control import Channel, Message, listen
from .embedded_ray import EmbeddedRay
from .exit_status import ASSUMED, describe, kernel_wait_status, open_process, shell_status
from .job import Job
from .outlets import Outlets
from .placement import rank_environment
from .rank import Rank, State
from .signals import SignalWatch
from .snapshots import SnapshotBoard

START_PATIENCE = 300.0
"""Seconds after which cards that have not started make the job fail."""

END_GRACE = 3.0
"""Seconds between asking ranks to end and killing them."""

_SIGNAL_STATUS = 128
_RAY_CHECK_PERIOD = 1.0


class Supervisor:
    """The driver's loop. Single-threaded; `failure` and `status` tell how the job went.

    `folder`: the job's folder, where the control socket lies.
    """

    def __init__(
        self,
        job: Job,
        folder: Path,
        outlets: Outlets,
        board: SnapshotBoard,
        signals: SignalWatch,
    ) -> None:
        self._job = job
        self._folder = folder
        self._control_path = str(folder / "control")
        self._server = listen(self._control_path)
        self._outlets = outlets
        self._board = board
        self._signals = signals
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ, self._accept)
        self._selector.register(signals, selectors.EVENT_READ, self._take_signals)
        self._cards: list[Any] = []
        self._kill_at = float("inf")
        self.ranks = [Rank(number) for number in range(job.world_size)]
        self.status = 0
        """Exit status of the job: that of the first rank that failed, 128 + signal where interrupted."""
        self.failure: str | None = None
        """Which rank failed first and why; None where none did."""
        self.interrupted: int | None = None
        """The signal that ended the job."""
        self.stopping = False

    def start(self, ray: EmbeddedRay) -> None:
        """Create the cards and wait until all are ready, or the job has failed or was interrupted."""
        self._cards = ray.create_cards(self._control_path)
        ready = [card.ready.remote() for card in self._cards]
        deadline = time.monotonic() + START_PATIENCE
        ray_check = 0.0
        while not self.stopping and any(rank.state is State.STARTING for rank in self.ranks):
            self._step(0.2)
            now = time.monotonic()
            if now >= ray_check:
                ray_check = now + _RAY_CHECK_PERIOD
                # Of a process that has come, its own end tells more than Ray.
                if any(rank.pid == 0 for rank in self.ranks) and (error := ray.failed_cards(ready)):
                    self._fail(1, f"a card could not be started: {error}")
            if now > deadline:
                missing = [str(rank.number) for rank in self.ranks if rank.state is State.STARTING]
                self._fail(1, f"rank {', '.join(missing)}: no card after {START_PATIENCE:.0f} s of waiting")

    def run(self) -> None:
        """Run the script on all cards, unless the job is ending already, and wait until all ranks have ended."""
        if not self.stopping:
            for card in self._cards:
                card.run.remote()
            for rank in self.ranks:
                rank.state = State.RUNNING
        while any(rank.state is not State.ENDED for rank in self.ranks if rank.pid):
            self._step(min(1.0, max(0.0, self._kill_at - time.monotonic())))
            if self._outlets.broken and not self.stopping:
                # As a process that writes to a closed pipe.
                self.status = _SIGNAL_STATUS + signal.SIGPIPE
                self._end_all(signal.SIGTERM)
        for rank in self.ranks:
            rank.kill_children()

    def close(self) -> None:
        """Kill what still runs and release everything."""
        for rank in self.ranks:
            rank.send_signal(signal.SIGKILL)
            rank.kill_children()
            rank.close()
        self._selector.close()
        self._server.close()

    def _step(self, patience: float) -> None:
        for key, _ in self._selector.select(patience):
            key.data()
        if time.monotonic() >= self._kill_at:
            self._kill_at = time.monotonic() + END_GRACE
            for rank in self.ranks:
                rank.send_signal(signal.SIGKILL)

    # ---- a card's process comes

    def _accept(self) -> None:
        connection, _ = self._server.accept()
        channel = Channel(connection)
        try:
            hello, _ = channel.receive()
        except (EOFError, OSError):
            channel.close()  # it died at once; Ray will tell
            return
        rank = self.ranks[self._job.accelerator_ids.index(hello["accelerator"])]
        rank.channel, rank.pid, rank.pidfd = channel, hello["pid"], open_process(hello["pid"])
        self._selector.register(channel, selectors.EVENT_READ, lambda: self._read(rank, channel))
        if rank.pidfd >= 0:
            self._selector.register(rank.pidfd, selectors.EVENT_READ, lambda: self._bury(rank))
        descriptors = self._outlets.descriptors(rank.number)
        with contextlib.suppress(OSError):  # where it has died meanwhile, its end is seen as any other
            channel.send(self._place(rank), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        if self.stopping:
            rank.send_signal(signal.SIGKILL)

    def _place(self, rank: Rank) -> Message:
        job = self._job
        return {
            "folder": str(self._folder),
            "environ": rank_environment(job, rank.number),
            "cwd": job.cwd,
            "sys_path": job.sys_path,
            "target": job.target,
            "arguments": job.arguments,
            "is_module": job.is_module,
            "command": (["-m"] if job.is_module else []) + [job.target, *job.arguments],
        }

    # ---- a card's process tells something

    def _read(self, rank: Rank, channel: Channel) -> None:
        for message in channel.receive_available():
            self._handle(rank, message)
        if channel.closed:
            with contextlib.suppress(KeyError):
                self._selector.unregister(channel)
            if rank.pidfd < 0 and rank.state is not State.ENDED:
                self._bury(rank)

    def _handle(self, rank: Rank, message: Message) -> None:
        event = message["event"]
        if event == "ready":
            rank.state = State.READY
        elif event == "snapshot":
            self._board.put(rank.number, message["snapshot"])
        elif event == "failed":
            rank.told_status, rank.told_error = message["status"], message["error"]
            self._fail_rank(rank, message["status"], f"failed: {message['error']}")
        elif event == "ended" or event == "exiting":
            rank.told_status = message["status"]

    # ---- a card's process ends

    def _bury(self, rank: Rank) -> None:
        starting = rank.state is not State.RUNNING
        rank.state = State.ENDED
        if rank.pidfd >= 0:
            self._selector.unregister(rank.pidfd)
        if rank.channel is not None and not rank.channel.closed:
            self._read(rank, rank.channel)
        wait_status = kernel_wait_status(rank.pidfd) if rank.pidfd >= 0 else None
        if wait_status is None and rank.told_status is not None:
            wait_status = rank.told_status << 8
        rank.status = shell_status(ASSUMED if wait_status is None else wait_status)
        if rank.status != 0 or starting:
            self._fail_rank(rank, rank.status or 1, describe(wait_status))

    def _fail_rank(self, rank: Rank, status: int, what: str) -> None:
        self._fail(status, f"rank {rank.number} ({self._job.card_name(rank.number)}) {what}")

    def _fail(self, status: int, text: str) -> None:
        """Note the job's first failure and end the other ranks."""
        if self.stopping:
            return
        self.status, self.failure = status, text
        self._end_all(signal.SIGTERM, spare=[rank for rank in self.ranks if rank.told_error is not None])

    def _end_all(self, number: int, spare: list[Rank] | None = None) -> None:
        """Ask the ranks to end (a failing one in `spare` is ending by itself); `_step` kills them after the
        grace.
        """
        self.stopping = True
        self._kill_at = time.monotonic() + END_GRACE
        for rank in self.ranks:
            if not spare or rank not in spare:
                rank.send_signal(number if rank.state is State.RUNNING else signal.SIGKILL)

    def _take_signals(self) -> None:
        for number in self._signals.take():
            self.interrupt(number)

    def interrupt(self, number: int) -> None:
        """End the job because this process got the signal `number`; the second time, at once."""
        if self.interrupted is not None:
            self._kill_at = time.monotonic()
            return
        self.interrupted = number
        self.status = _SIGNAL_STATUS + number
        self.failure = None
        self._end_all(number)
