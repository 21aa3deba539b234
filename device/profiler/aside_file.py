"""A file that is written aside and appears under its name only when it is complete.

It can be completed several times: between two of these it is taken aside again and written on.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

BUFFER_BYTES = 1 << 20


class AsideFile:
    """Written under a hidden name in the same folder.

    Raises:
        OSError: from every method but `discard`, as the file system gives it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._aside = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._end = 0  # of what was complete last, without the tail
        self._tail = b""
        self._published = False
        self._file = open(self._aside, "wb", buffering=BUFFER_BYTES)  # noqa: SIM115

    def write(self, text: str) -> None:
        self._file.write(text.encode())

    def publish(self, tail: str = "") -> None:
        """Complete the file with `tail` and give it its name."""
        if self._published:
            return
        self._end, self._tail = self._file.tell(), tail.encode()
        self._file.write(self._tail)
        self._file.flush()
        os.replace(self._aside, self.path)
        self._published = True

    def resume(self) -> None:
        """Take the file aside again, without the tail."""
        if self._published:
            os.replace(self.path, self._aside)
            self._published = False
            self._file.seek(self._end)
            self._file.truncate()

    def close(self) -> None:
        """After `publish`: nothing more is written."""
        self._file.close()

    def discard(self) -> None:
        """Leave nothing behind but what was complete last."""
        with contextlib.suppress(OSError):  # what is left in the buffer cannot be written either
            self._file.close()
        if self._published:
            return
        with contextlib.suppress(OSError):
            if self._end:
                os.truncate(self._aside, self._end)
                with open(self._aside, "ab") as file:
                    file.write(self._tail)
                os.replace(self._aside, self.path)
        with contextlib.suppress(OSError):
            self._aside.unlink(missing_ok=True)
