"""Brings the ranks' standard output and error to the driver's own, line by line, prefixed by the rank.

Every rank writes into two pipes; one thread reads them all. Lines stay whole, and output that a rank wrote
before it was killed still arrives. A progress bar (text that ends in a carriage return, to be overwritten)
counts as a line; of a bar's states only the latest is passed on, at most once in `BAR_PERIOD`.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import threading
import time
from dataclasses import dataclass, field

BAR_PERIOD = 1.0
"""Least seconds between two states of one progress bar."""

LONGEST_LINE = 1 << 20
"""A longer line is cut. Unit: bytes."""

STDIN, STDOUT, STDERR = 0, 1, 2

_CHUNK = 1 << 16


@dataclass
class LineAssembler:
    """Cuts a stream of bytes into lines, each with `prefix` in front and a newline at its end."""

    prefix: bytes
    _pending: bytearray = field(default_factory=bytearray)
    _bar_shown: float = float("-inf")

    def feed(self, data: bytes, now: float) -> bytes:
        """The whole lines that `data` completes. `now`: seconds on any steady clock."""
        self._pending += data
        if b"\r" not in self._pending:
            return self._whole_lines()
        out = bytearray()
        while True:
            end, width = self._next_end()
            if end < 0:
                break
            line, terminator = bytes(self._pending[:end]), bytes(self._pending[end : end + width])
            del self._pending[: end + width]
            out += self._line(line, terminator, now)
        return bytes(out)

    def _whole_lines(self) -> bytes:
        """All whole lines at once: the common case, without carriage returns."""
        end = self._pending.rfind(b"\n")
        if end < 0:
            if len(self._pending) < LONGEST_LINE:
                return b""
            end = len(self._pending)
        lines = bytes(self._pending[:end]).split(b"\n")
        del self._pending[: end + 1]
        return b"".join(self.prefix + line + b"\n" for line in lines)

    def _next_end(self) -> tuple[int, int]:
        """Where the first line ends, and the width of its terminator; -1 where no line is whole yet."""
        pending = self._pending
        newline, carriage = pending.find(b"\n"), pending.find(b"\r")
        if carriage >= 0 and (newline < 0 or carriage < newline):
            if carriage + 1 == len(pending):
                return -1, 0  # a newline may follow
            return (carriage, 2) if pending[carriage + 1] == ord("\n") else (carriage, 1)
        return newline, 1

    def _line(self, line: bytes, terminator: bytes, now: float) -> bytes:
        if terminator == b"\r":
            if not line.strip() or now - self._bar_shown < BAR_PERIOD:
                return b""
            self._bar_shown = now
        return self.prefix + line + b"\n"

    def finish(self) -> bytes:
        """What remained without a line end, as a line."""
        rest = bytes(self._pending).rstrip(b"\r")
        self._pending.clear()
        return self.prefix + rest + b"\n" if rest else b""


@dataclass
class _Stream:
    source: int
    sink: int
    lines: LineAssembler


class StreamPump:
    """The thread that moves the ranks' output. `broken` is set when the driver's own output was closed."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._waker_read, self._waker_write = os.pipe()
        self._selector.register(self._waker_read, selectors.EVENT_READ, None)
        self._finishing = False
        self._thread = threading.Thread(target=self._run, name="hpucluster-streams", daemon=True)
        self.broken = threading.Event()

    def start(self) -> None:
        """Start moving output."""
        self._thread.start()

    def open_pipe(self, prefix: str, sink: int) -> int:
        """A new pipe whose lines go to the descriptor `sink` behind `prefix`. Returns the end to write to."""
        source, write_end = os.pipe()
        os.set_blocking(source, False)
        stream = _Stream(source, sink, LineAssembler(prefix.encode()))
        self._selector.register(source, selectors.EVENT_READ, stream)
        return write_end

    def finish(self) -> None:
        """Pass on all that was written so far, and stop. Does not wait for what a process that still has its pipe
        may write later."""
        if not self._thread.is_alive():
            return
        self._finishing = True
        os.write(self._waker_write, b".")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                while self._move(key.data):
                    pass
        self._selector.close()
        os.close(self._waker_read)
        os.close(self._waker_write)

    def _run(self) -> None:
        while not self._finishing:
            for key, _ in self._selector.select():
                if key.data is not None:
                    self._move(key.data)

    def _move(self, stream: _Stream) -> bool:
        """Pass on what has arrived. False where nothing more is to come for now, or, at the end, ever."""
        try:
            data = os.read(stream.source, _CHUNK)
        except BlockingIOError:
            if self._finishing:
                self._end(stream)
            return False
        if data:
            self._write(stream.sink, stream.lines.feed(data, time.monotonic()))
            return True
        self._end(stream)
        return False

    def _end(self, stream: _Stream) -> None:
        self._write(stream.sink, stream.lines.finish())
        self._selector.unregister(stream.source)
        os.close(stream.source)

    def _write(self, sink: int, data: bytes) -> None:
        """Write all of `data`; where nobody reads the driver's output any more, drop it and set `broken`."""
        view = memoryview(data)
        while view and not self.broken.is_set():
            try:
                view = view[os.write(sink, view) :]
            except BlockingIOError:  # a terminal or pipe that someone made non-blocking
                with contextlib.suppress(OSError):
                    select.select([], [sink], [])
            except OSError:
                self.broken.set()
