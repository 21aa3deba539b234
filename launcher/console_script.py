"""What the console scripts have in common: mistakes in one line on standard error, exit status 2."""

from __future__ import annotations

import io
import signal
import sys
from typing import NoReturn

import click

from device.errors import ConfigurationError

from .messages import NO_ROOM, USAGE_STATUS, readable, unwritable


def run(command: click.Command, name: str) -> NoReturn:
    """Run the console script `name` and exit: 0, 2 for a mistake of the user's, 130 after Ctrl-C."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names in a trace may have what the terminal cannot show
    with readable(sys.stdout):
        try:
            status = command.main(prog_name=name, standalone_mode=False)
            sys.stdout.flush()
            sys.exit(status)
        except click.UsageError as error:
            _refuse(name, f"{error.format_message()} See {name} --help.", error.exit_code)
        except click.ClickException as error:
            _refuse(name, error.format_message(), error.exit_code)
        except ConfigurationError as error:
            _refuse(name, str(error), USAGE_STATUS)
        except BrokenPipeError:
            raise
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            _refuse(name, unwritable(error), USAGE_STATUS)
        except (click.Abort, KeyboardInterrupt):
            sys.exit(128 + signal.SIGINT)
    sys.exit(0)


def _refuse(name: str, text: str, status: int) -> NoReturn:
    with readable(sys.stderr):
        print(f"{name}: {text}", file=sys.stderr, flush=True)
    sys.exit(status)
