"""The cache folder: files that appear whole or not at all, a lock that dies with its holder, a size limit.

A file is written aside and renamed, so that a reader never sees half of one whatever process is killed when. The lock
keeps the size limit and the emptying of the folder from crossing a rename; the kernel drops it with its holder, and who
waits too long for it (a stopped process, a lost NFS server) goes on without: then a recipe may be lost, never damaged.
Only files with the cache's own names are ever removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

RECIPE = ".recipe"
HASH_CONTENT = ".hash_content"
_OURS = re.compile(r"[0-9a-f]+_[0-9a-f]+_syn[^/]*\.recipe|[0-9a-f]+\.hash_content")
_ASIDE = ".aside-"
_LOCK = ".lock"

PATIENCE_S = 10.0
"""How long to wait for the lock."""
STALE_S = 600.0
"""Age from which a file that was being written belongs to a process that is no more."""

_in_process = threading.Lock()  # POSIX locks do not tell the threads of a process apart


@dataclass(frozen=True)
class Entry:
    """A file of the cache: last use (nanoseconds of the machine's clock) and size in bytes."""

    used: int
    name: str
    nbytes: int


class CacheFolder:
    """The folder at `path`. `on_nfs`: lock by POSIX record locks, which every NFS version carries to its server."""

    def __init__(self, path: Path, on_nfs: bool = False) -> None:
        self.path = path
        self._take = fcntl.lockf if on_nfs else fcntl.flock

    def open(self) -> None:
        """Create the folder where it is missing, and try to write in it. Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._aside(b"").unlink()

    def read(self, name: str) -> bytes | None:
        """The content of a file; None where there is none. Raises other OSErrors."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, pattern: str) -> list[str]:
        """The names that match a shell pattern, in order."""
        return sorted(path.name for path in self.path.glob(pattern))

    def write(self, name: str, content: bytes) -> None:
        """Have the file appear, in place of one of that name. Raises OSError."""
        aside = self._aside(content)
        try:
            with self.locked():
                aside.replace(self.path / name)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise

    def touch(self, name: str) -> None:
        """The file was used now."""
        with contextlib.suppress(OSError):  # it has been evicted, or belongs to another user
            os.utime(self.path / name)

    def clear(self, spared: Callable[[Path], bool]) -> None:
        """Remove the files of the cache but those that are spared. Raises OSError."""
        with self.locked():
            for entry in self._entries():
                path = self.path / entry.name
                if not spared(path):
                    path.unlink(missing_ok=True)

    def evict(self, limit: int) -> int:
        """Remove files, the oldest used first, until they have at most `limit` bytes. What is left of it, in bytes."""
        with self.locked():
            entries = sorted(self._entries(), key=lambda entry: (entry.used, entry.name))
            total = sum(entry.nbytes for entry in entries)
            for entry in entries:
                if total <= limit:
                    break
                (self.path / entry.name).unlink(missing_ok=True)
                total -= entry.nbytes
        return limit - total

    @contextlib.contextmanager
    def locked(self) -> Iterator[bool]:
        """While entered no other process has the lock; False where it could not be had in time."""
        deadline = time.monotonic() + PATIENCE_S
        if not _in_process.acquire(timeout=PATIENCE_S):
            yield False
            return
        try:
            descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                yield self._try(descriptor, deadline)
            finally:
                os.close(descriptor)  # which releases the lock
        finally:
            _in_process.release()

    def _try(self, descriptor: int, deadline: float) -> bool:
        pause = 0.0005
        while True:
            try:
                self._take(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except OSError:
                if time.monotonic() >= deadline:
                    return False
            time.sleep(pause)
            pause = min(2 * pause, 0.02)

    def _aside(self, content: bytes) -> Path:
        """A new file with that content, under a name that nobody reads."""
        path = self.path / f"{_ASIDE}{os.getpid()}-{secrets.token_hex(8)}"
        try:
            path.write_bytes(content)
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            raise
        return path

    def _entries(self) -> list[Entry]:
        """The files of the cache; those left aside by processes that are no more are removed on the way."""
        entries = []
        with os.scandir(self.path) as found:
            for file in found:
                is_aside = file.name.startswith(_ASIDE)
                if not is_aside and not _OURS.fullmatch(file.name):
                    continue
                try:
                    status = file.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # renamed or removed meanwhile
                if not is_aside:
                    entries.append(Entry(status.st_mtime_ns, file.name, status.st_size))
                elif time.time() - status.st_mtime > STALE_S:
                    Path(file.path).unlink(missing_ok=True)
        return entries
