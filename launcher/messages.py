"""How the command line says what is wrong: one line on standard error, exit status 2."""

from __future__ import annotations

import sys
from typing import IO, Any

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
    print(f"hpurun: {text}", file=sys.stderr, flush=True)
