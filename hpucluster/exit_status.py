"""How a process ended: its wait status, asked of the kernel, and the same in words.

The driver is not the parent of a card's process (Ray is), so it cannot wait for it. Since Linux 6.15 a pidfd
tells the exit status once the process was reaped (PIDFD_GET_INFO with PIDFD_INFO_EXIT,
include/uapi/linux/pidfd.h). On older kernels the status is unknown, and `ASSUMED` stands in: a process that
ended without a word was killed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import time

ASSUMED = int(signal.SIGKILL)
"""Wait status assumed of a process that ended without a word on a kernel that does not tell."""

_PIDFD_GET_INFO = 0xC040FF0B  # _IOWR(0xFF, 11, struct pidfd_info), 64 bytes
_PIDFD_INFO_EXIT = 1 << 3
_MASK = struct.Struct("=Q")
_EXIT_CODE = struct.Struct("=i")
_EXIT_CODE_OFFSET = 60
_INFO_SIZE = 64
_TRIES = 3


def open_process(pid: int) -> int:
    """A pidfd of the process, readable once it has ended; -1 where it has gone or the kernel has no pidfds."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return -1


def kernel_wait_status(pidfd: int, patience: float = 0.5) -> int | None:
    """Wait status of the ended process behind `pidfd`, None where the kernel does not tell.

    `patience`: seconds to wait until the process's parent has reaped it.
    """
    deadline = time.monotonic() + patience
    vanished = 0
    while True:
        info = bytearray(_INFO_SIZE)
        _MASK.pack_into(info, 0, _PIDFD_INFO_EXIT)
        try:
            fcntl.ioctl(pidfd, _PIDFD_GET_INFO, info)
        except OSError as error:
            # It may have been reaped between the kernel's two looks at it: the next request tells.
            vanished += 1
            if error.errno != errno.ESRCH or vanished > _TRIES:
                return None
            continue
        if _MASK.unpack_from(info)[0] & _PIDFD_INFO_EXIT:
            return int(_EXIT_CODE.unpack_from(info, _EXIT_CODE_OFFSET)[0])
        if time.monotonic() > deadline:
            return None
        time.sleep(0.01)


def shell_status(wait_status: int) -> int:
    """A wait status as a shell shows it: the exit code, or 128 + signal."""
    code = os.waitstatus_to_exitcode(wait_status)
    return code if code >= 0 else 128 - code


def describe(wait_status: int | None) -> str:
    """A wait status in words: `was killed by signal 11 (SIGSEGV)`, `ended with status 3 by os._exit ...`."""
    if wait_status is None:
        return "ended without a word: it was killed, or crashed in native code"
    code = os.waitstatus_to_exitcode(wait_status)
    if code >= 0:
        return f"ended with exit status {code}, by os._exit or in native code"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "a real-time signal"
    text = f"was killed by signal {-code} ({name})"
    if -code == signal.SIGKILL:
        text += ", as the kernel does where memory runs out"
    return text
