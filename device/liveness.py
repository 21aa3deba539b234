"""Is a process of this machine still running? A zombie is not."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessId:
    """A process, told apart from a later one with the same number by its start time.

    `start` is in clock ticks since boot, `namespace` the inode of the PID namespace in which `pid` counts.
    """

    pid: int
    start: int
    namespace: int

    @classmethod
    def of_this_process(cls) -> ProcessId:
        return cls(os.getpid(), _stat(os.getpid())[1], _namespace())

    def is_visible(self) -> bool:
        """Can this process be watched from here?"""
        return self.namespace == _namespace()

    def is_alive(self) -> bool:
        """Running or sleeping; False once it has ended, reaped or not."""
        try:
            state, start = _stat(self.pid)
        except (FileNotFoundError, ProcessLookupError):
            return False
        return start == self.start and state not in "ZX"

    def open(self) -> int | None:
        """A descriptor that becomes readable when the process ends; None where the kernel has no such thing.

        Raises:
            ProcessLookupError: it has ended already.
        """
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            raise
        except (OSError, AttributeError):
            return None
        if not self.is_alive():
            os.close(descriptor)
            raise ProcessLookupError(self.pid)
        return descriptor


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _stat(pid: int) -> tuple[str, int]:
    """State letter and start time. The name in the middle may hold spaces and brackets."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return fields[0], int(fields[19])
