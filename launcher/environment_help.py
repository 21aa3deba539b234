"""`hpurun --env-help`: the environment variables, what each does on emulated cards, and its value now."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Iterator, Mapping

import click

from device import flags
from device.errors import ConfigurationError
from launcher.messages import UserError, say

WITHOUT_EFFECT = "accepted, no effect"
TITLES = {
    "bridge": "PyTorch bridge",
    "later": "PyTorch bridge: later releases, and variables of its Python code",
    "system": "Driver, profiler, communication library, container runtime",
    "emulator": "hpucluster",
}
NARROWEST = 60


def print_environment(ctx: click.Context, parameter: click.Parameter, chosen: bool) -> None:
    """Callback of `--env-help`: print the table and end."""
    if not chosen:
        return
    width = max(shutil.get_terminal_size((100, 24)).columns, NARROWEST)
    try:
        click.echo("\n".join(lines(width)))
    except ConfigurationError as error:
        raise UserError(str(error)) from error
    ctx.exit(0)


def tell_unknown(environ: Mapping[str, str] | None = None) -> None:
    """A line on standard error for each variable of the environment that is a slip of the pen."""
    for line in flags.unknown(environ):
        say(line)


def lines(width: int) -> Iterator[str]:
    """The table: a name, its default and value, and below what it does."""
    yield "Environment variables. Flags take 1 or 0. A value is shown where one is set."
    for source, title in TITLES.items():
        yield f"\n{title}"
        for variable in flags.variables().values():
            if variable.source == source and variable.effect:
                yield from _entry(variable, width)
        for variable in flags.variables().values():
            if variable.source == source and not variable.effect:
                yield f"  {variable.name}  ({_facts(variable)}): {WITHOUT_EFFECT}"


def _entry(variable: flags.Variable, width: int) -> Iterator[str]:
    yield f"  {variable.name}  ({_facts(variable)})"
    yield from textwrap.wrap(variable.effect, width, initial_indent=" " * 6, subsequent_indent=" " * 6)


def _facts(variable: flags.Variable) -> str:
    facts = [f"default {_shown(variable.current_default())}"]
    if variable.since:
        facts.append(f"since {variable.since}")
    if variable.name in os.environ:
        facts.append(f"now {_now(variable)}")
    return ", ".join(facts)


def _shown(value: flags.Value) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return str(value) if value != "" else "unset"


def _now(variable: flags.Variable) -> str:
    try:
        return _shown(variable.from_environment())
    except ConfigurationError as error:
        return f"{os.environ[variable.name]!r}: {error}"
