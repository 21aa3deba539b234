"""The ranks of this machine: PyTorch is loaded once, and each rank forked from there, which takes milliseconds."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from device.backend import runtime
from hpucluster.rank_process import finish_interpreter

from . import rank as one
from .settings import OPTIONAL, Settings, rank_environment

GRACE_S = 10.0
"""Seconds in which ranks end by themselves after one has failed; their group notices."""
_LOOK_S = 0.02

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class RankFailed(RuntimeError):
    """A rank ended badly, or too late; the message says which and how."""


def run_ranks(settings: Settings, ranks: Sequence[int], timeout_s: float | None) -> None:
    """Run these ranks, each in a process of its own with a card of its own, to their end.

    Raises:
        RankFailed: one failed, or not all had ended after `timeout_s` seconds; by then all have ended.
        KeyboardInterrupt: likewise.
    """
    # Nothing here has a thread or a card yet: every rank makes its own.
    runtime.bridge()
    sys.stdout.flush()
    sys.stderr.flush()
    running: dict[int, int] = {}
    before = signal.signal(signal.SIGTERM, _end)
    try:
        for rank in ranks:
            running[_fork(settings, rank)] = rank
        _await(running, timeout_s)
    finally:
        signal.signal(signal.SIGTERM, before)
        for process in running:
            os.kill(process, signal.SIGKILL)
        for process in running:
            os.waitpid(process, 0)


def _end(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _fork(settings: Settings, rank: int) -> int:
    process = os.fork()
    if process:
        return process
    status = one.FAILED
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # not to go on for hours when whoever started it was killed
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        for name in OPTIONAL:
            os.environ.pop(name, None)
        os.environ.update(rank_environment(settings, rank))
        status = one.run()
        finish_interpreter(())
    finally:
        os._exit(status)


def _await(running: dict[int, int], timeout_s: float | None) -> None:
    """Wait until all have ended, and take each out of `running` as it does."""
    end = None if timeout_s is None else time.monotonic() + timeout_s
    failure: str | None = None
    while running:
        process, status = os.waitpid(-1, os.WNOHANG)
        if process in running:
            rank, code = running.pop(process), os.waitstatus_to_exitcode(status)
            if code and failure is None:
                failure = f"rank {rank} {_how(code)}"
                end = min(end or float("inf"), time.monotonic() + GRACE_S)
        elif end is not None and time.monotonic() > end:
            break
        else:
            time.sleep(_LOOK_S)
    if failure is None and running:
        names = ", ".join(map(str, sorted(running.values())))
        failure = f"time is up (--timeout): rank{'s' if len(running) > 1 else ''} {names} had not ended"
    if failure is not None:
        raise RankFailed(failure)


def _how(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
