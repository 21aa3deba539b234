"""Nothing of a job stays behind: its folder, its shared memory, its processes; also not of jobs that were
killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")

REMOVAL_ATTEMPTS = 20

_PREFIX = "hpurun-"
_LONGEST_BASE = 24
"""Ray's Unix sockets lie about 70 characters below the folder; a socket's path has at most 107."""


def create_folder() -> Path:
    """A private folder for one job, of short path. Removes those of jobs whose driver was killed."""
    base = tempfile.gettempdir()
    if len(base) > _LONGEST_BASE:
        base = "/tmp"
    for old in Path(base).glob(f"{_PREFIX}*"):
        pid = old.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base))


def remove_folder(folder: Path) -> None:
    """Remove a job's folder, into which a process that is about to end may still write."""
    for _ in range(REMOVAL_ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)


def remove_shared_memory(job: str) -> None:
    """Remove the files in shared memory that ranks of the job named `job` left when they were killed."""
    for path in SHARED_MEMORY.glob(f"hpucluster-{job}-*"):
        path.unlink(missing_ok=True)


def descendants(pid: int) -> list[int]:
    """The process's children, their children and so on, as far as still running."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                # The command, in parentheses, may contain anything; the parent's id is the second field after
                # it.
                fields = Path("/proc", entry, "stat").read_text(errors="replace").rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry))
    found: list[int] = []
    pending = [pid]
    while pending:
        direct = children.get(pending.pop(), [])
        found += direct
        pending += direct
    return found


def kill(pids: list[int]) -> None:
    """Kill those of the processes that still run, with the process groups that they lead."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)
            else:
                os.kill(pid, signal.SIGKILL)


def remove_all(folder: Path, job: str, pids: list[int]) -> None:
    """Kill the processes of a job, and remove its folder and shared memory, in a process that none of them knows.

    The ranks of a job whose driver has gone notice it at once and end each other: none of them may do the cleaning.
    """
    command = [sys.executable, "-I", "-S", __file__, str(folder), job, *map(str, pids)]
    subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)


if __name__ == "__main__":
    kill([int(text) for text in sys.argv[3:]])
    remove_shared_memory(sys.argv[2])
    remove_folder(Path(sys.argv[1]))
