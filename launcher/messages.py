"""How the command line says what is wrong: one line on standard error, exit status 2."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import IO, Any, TextIO

import click

USAGE_STATUS = 2
"""Exit status of a user's mistake."""


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Errors of a disk that takes no more."""


class UserError(click.ClickException):
    """A mistake of the user's: the message names the value and the remedy."""

    exit_code = USAGE_STATUS

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message."""
        say(self.format_message())


def say(text: str) -> None:
    """Print a line of the launcher's own on standard error."""
    with readable(sys.stderr):
        print(f"hpurun: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def readable(stream: TextIO) -> Iterator[None]:
    """While entered, `stream` may turn out to be a pipe that nobody reads; then it is silenced for good."""
    try:
        yield
    except BrokenPipeError:
        silence(stream)


def silence(stream: TextIO) -> None:
    """Nothing more comes out of `stream`, which cannot be written.

    Python flushes its streams again at its end, and would change the exit status if that failed.
    """
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, stream.fileno())
    os.close(silent)


def unwritable(error: OSError) -> str:
    """What to say where standard output cannot be written; it is silenced."""
    silence(sys.stdout)
    return f"standard output cannot be written: {error.strerror or error}; make room, or write to another place"
