"""Linux futex: sleep until a word of shared memory changes.

A waiter sleeps in the kernel and is woken by the writer, so nobody polls. Where the system call's number is
not known the wait is a short sleep.
"""

from __future__ import annotations

import ctypes
import platform
import threading
import time

_WAIT, _WAKE, _EVERYBODY = 0, 1, 2**31 - 1
_NUMBERS = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "loongarch64": 98, "ppc64le": 221}
_NUMBER = _NUMBERS.get(platform.machine())
_STRONGLY_ORDERED = platform.machine() == "x86_64"
_FALLBACK_SLEEP_S = 50e-6

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = [
    ctypes.c_long,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_uint32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_uint32,
]
_barrier_lock = threading.Lock()

yield_cpu = _libc.sched_yield
"""Let another process run; unlike `os.sched_yield` of older Pythons this gives up the GIL too."""


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class Timeout:
    """A relative time for `wait`, made once and used often."""

    def __init__(self, seconds: float) -> None:
        self._value = _Timespec(int(seconds), int(seconds % 1 * 1e9))
        self.address = ctypes.addressof(self._value)


def wait(address: int, expected: int, timeout: Timeout) -> None:
    """Sleep while the 32-bit word at `address` equals `expected`; also returns early, by signals or time-out."""
    if _NUMBER is None:
        time.sleep(_FALLBACK_SLEEP_S)
        return
    _syscall(_NUMBER, address, _WAIT, expected & 0xFFFFFFFF, timeout.address, None, 0)


def wake(address: int) -> None:
    """Wake all that sleep on the word at `address`."""
    if _NUMBER is not None:
        _syscall(_NUMBER, address, _WAKE, _EVERYBODY, None, None, 0)


def order_stores() -> None:
    """Earlier stores of this thread become visible to other processes before later ones (free on x86-64).

    Elsewhere a lock's release followed by its acquire is used, which ARMv8 and RISC-V keep in order.
    """
    if not _STRONGLY_ORDERED:
        with _barrier_lock:
            pass
        with _barrier_lock:
            pass
