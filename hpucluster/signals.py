"""Signals that end a job (Ctrl-C, SIGTERM, SIGHUP), as readable events of the driver's loop."""

from __future__ import annotations

import signal
import socket
from collections import deque
from types import FrameType, TracebackType

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalWatch:
    """While entered, the ending signals are recorded instead of ending this process; `fileno` becomes
    readable.

    A third signal of the same run ends the driver at once by KeyboardInterrupt, should its loop be stuck.
    """

    def __init__(self) -> None:
        self._received: deque[int] = deque()
        self._count = 0
        self._former: dict[int, object] = {}
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def fileno(self) -> int:
        """Descriptor that is readable when a signal has come."""
        return self._reader.fileno()

    def __enter__(self) -> SignalWatch:
        self._former_wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in ENDING_SIGNALS:
            # nohup: a signal that is ignored stays so.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._former[number] = signal.signal(number, self._record)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._former_wakeup)
        self._reader.close()
        self._writer.close()

    def _record(self, number: int, frame: FrameType | None) -> None:
        self._received.append(number)
        self._count += 1
        if self._count >= 3:
            raise KeyboardInterrupt

    def take(self) -> list[int]:
        """The signals that came since the last call."""
        try:
            while self._reader.recv(64):
                pass
        except BlockingIOError:
            pass
        taken = list(self._received)
        self._received.clear()
        return taken
