"""`hl-prof-config` on a terminal: shows the settings, changes them by their numbers, saves."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from device.errors import ConfigurationError
from device.profiler import document as names
from device.profiler.document import Document

from .settings import SETTINGS
from .table import settings_table, template_summary

PROMPT = f"1-{len(SETTINGS)}: change, t: template, d: defaults, s: save, q: quit"


def edit(path: Path) -> None:
    """Change the settings in the file at `path` until the user saves or quits.

    Raises:
        ConfigurationError: the file cannot be read or written.
        click.Abort: end of input, or Ctrl-C.
    """
    console = Console(highlight=False)
    saved = names.read(path) if path.exists() else {}
    unknown = names.check(saved, f"profiler configuration {path}")
    if unknown:
        console.print(f"{path}: unknown and without effect: {', '.join(unknown)}", markup=False)
    document = names.defaults() | saved
    before = dict(document)
    while True:
        console.print(settings_table(document, str(path)))
        answer = click.prompt(PROMPT, default="q", show_default=False).strip().lower()
        if answer == "s":
            names.write(document, path)
            click.echo(f"Config file was edited: {path}")
            return
        if answer == "q":
            if document == before or click.confirm("Leave without saving the changes?", default=False):
                return
        elif answer == "d":
            document = names.defaults()
        elif answer == "t":
            document = _template(document)
        elif answer.isdecimal() and 1 <= int(answer) <= len(SETTINGS):
            _change(document, int(answer))
        else:
            click.echo(f"{answer}: use a number from 1 to {len(SETTINGS)}, t, d, s or q")


def _change(document: Document, number: int) -> None:
    setting = SETTINGS[number - 1]
    click.echo(setting.meaning)
    while True:
        text = click.prompt(f"{setting.title} ({setting.values})", default=setting.show(document)).strip()
        if text == setting.show(document):
            return
        try:
            setting.put(document, text)
            return
        except ValueError as error:
            click.echo(f"{text}: {error}")


def _template(document: Document) -> Document:
    for name in names.template_names():
        click.echo(f"  {name:24}{template_summary(name)}")
    name = click.prompt("template", default="", show_default=False).strip()
    if not name:
        return document
    try:
        return names.template(name)
    except ConfigurationError as error:
        click.echo(str(error))
        return document
