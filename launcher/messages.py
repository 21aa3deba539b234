"""How the command line says what is wrong: one line on standard error, exit status 2."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import IO, Any, TextIO

import click

USAGE_STATUS = 2
"""Exit status of a user's mistake."""


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
        # Python flushes its streams again at its end, and would change the exit status if that failed.
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, stream.fileno())
        os.close(silent)
