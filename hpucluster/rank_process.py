"""Turns a Ray worker into what a user's script expects of its process, and ends it as python would.

A Ray worker differs from a plain python process in its environment, search path, signal handling, standard
streams, exception hook and exit handlers. A script must not notice.
"""

from __future__ import annotations

import atexit
import faulthandler
import io
import os
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable
from multiprocessing import util as multiprocessing_util

from .streams import STDERR, STDIN, STDOUT


def set_environment(environ: dict[str, str]) -> None:
    """Make `environ` the whole environment of this process."""
    for name in [name for name in os.environ if name not in environ]:
        del os.environ[name]
    os.environ.update(environ)


def redirect_streams(stdin: int, stdout: int, stderr: int) -> None:
    """Make the given file descriptors this process's standard streams (closing them), line-buffered text in
    Python.

    At the level of descriptors, so that native code's and subprocesses' output takes the same way.
    """
    for descriptor, target in ((stdin, STDIN), (stdout, STDOUT), (stderr, STDERR)):
        os.dup2(descriptor, target, inheritable=True)
        os.close(descriptor)
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    # Ray replaces sys.stdout but not sys.__stdout__, which has the encoding that python chose at its start.
    encoding = getattr(sys.__stdout__, "encoding", None) or "utf-8"
    errors = getattr(sys.__stdout__, "errors", None) or "strict"
    sys.stdin = _text(STDIN, "r", encoding, errors, False)
    sys.stdout = _text(STDOUT, "w", encoding, errors, unbuffered)
    sys.stderr = _text(STDERR, "w", encoding, "backslashreplace", unbuffered)
    vars(sys).update(__stdin__=sys.stdin, __stdout__=sys.stdout, __stderr__=sys.stderr)


def _text(descriptor: int, mode: str, encoding: str, errors: str, unbuffered: bool) -> io.TextIOWrapper:
    binary = open(descriptor, mode + "b", closefd=False)  # noqa: SIM115 - lives as long as the process
    stream = io.TextIOWrapper(
        binary, encoding=encoding, errors=errors, line_buffering=mode == "w", write_through=unbuffered
    )
    vars(stream)["mode"] = mode
    return stream


def reset_signals() -> None:
    """Give every signal the handling that a fresh python process has; report crashes of native code on
    stderr.
    """
    faulthandler.disable()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):  # signals that the C library keeps for itself
            continue
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    faulthandler.enable(file=STDERR, all_threads=False)


def reset_hooks() -> None:
    """Undo the hooks that Ray set for its own workers."""
    sys.excepthook = sys.__excepthook__
    threading.excepthook = threading.__excepthook__
    sys.breakpointhook = sys.__breakpointhook__


def exit_code(error: SystemExit) -> int:
    """The exit status that python gives a process for SystemExit; prints a message as python does."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def print_uncaught(error: BaseException, trace: types.TracebackType | None) -> None:
    """Print an exception that nothing caught, by `sys.excepthook` as python does."""
    try:
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    except Exception:
        print("Error in sys.excepthook:", file=sys.stderr)
        traceback.print_exc()
        print("\nOriginal exception was:", file=sys.stderr)
        traceback.print_exception(type(error), error, trace)


def finish_interpreter(forget: tuple[Callable[..., object], ...]) -> None:
    """What python does before it ends: wait for threads, run exit handlers (not those in `forget`), flush.

    The process then ends by `os._exit`, as multiprocessing's processes do: Ray's threads would not survive
    a full finalization.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    for handler in forget:
        atexit.unregister(handler)
    atexit._run_exitfuncs()
    multiprocessing_util._flush_std_streams()  # type: ignore[attr-defined]
