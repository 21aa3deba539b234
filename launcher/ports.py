"""Who holds a TCP port of this machine, and what to say of one that cannot be had."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

_LISTENING = "0A"


def holder(port: int) -> str | None:
    """The process that listens on `port`: `prometheus (pid 123)`; None where it cannot be found out."""
    inodes = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # another user's process, or one that just ended
            for link in (process / "fd").iterdir():
                if os.readlink(link) in inodes:
                    return f"{(process / 'comm').read_text().strip()} (pid {process.name})"
    return None


def problem(port: int, error: OSError) -> str:
    """Why a server could not have `port`: who holds it, or what the system says."""
    if error.errno == errno.EADDRINUSE:
        return f"in use by {holder(port) or 'another process'}"
    return error.strerror or str(error)


def _listening_inodes(port: int) -> set[str]:
    """Inodes of the sockets that listen on `port`, from /proc/net/tcp: local address is field 1, inode field
    9.
    """
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(fields[9])
    return inodes
