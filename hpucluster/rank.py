"""One rank as the driver sees it."""

from __future__ import annotations

import contextlib
import enum
import os
import signal
from dataclasses import dataclass

from .control import Channel


class State(enum.Enum):
    """Where a rank is in its life."""

    STARTING = "starting"
    READY = "ready"
    RUNNING = "running"
    ENDED = "ended"


@dataclass
class Rank:
    """A rank's process, its control channel and how it ended."""

    number: int
    state: State = State.STARTING
    channel: Channel | None = None
    pid: int = 0
    pidfd: int = -1
    told_status: int | None = None
    """Exit status that the rank itself told over its channel."""
    told_error: str | None = None
    """Why it fails, as it told itself: `ValueError: ...`."""
    status: int | None = None
    """Exit status as a shell shows it, once the process has ended."""

    def send_signal(self, number: int) -> None:
        """Send a signal to the rank's process and, where it leads a process group, to its children."""
        if self.state is State.ENDED or self.pid == 0:
            return
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)

    def kill_children(self) -> None:
        """Kill what is left of the process group of a rank that has ended."""
        if self.pid and self.pid != os.getpgrp():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Release the driver's descriptors of this rank."""
        if self.channel is not None:
            self.channel.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
