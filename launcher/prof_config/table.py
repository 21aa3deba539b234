"""The profiler's settings as a table, and templates in a line each."""

from __future__ import annotations

from rich import box
from rich.table import Table

from device.profiler import document as names
from device.profiler.configuration import configuration
from device.profiler.document import Document

from .settings import SETTINGS


def settings_table(document: Document, title: str) -> Table:
    """All settings with their numbers and values."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold")
    table.add_column("", justify="right")
    table.add_column("setting", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("meaning")
    for number, setting in enumerate(SETTINGS, start=1):
        table.add_row(str(number), setting.title, setting.show(document), setting.meaning)
    return table


def template_summary(name: str) -> str:
    """What a template records."""
    config = configuration(names.template(name))
    when = {
        "profileApi": "between the script's start and stop",
        "device-acq": "the whole run",
        "multi-enq": "launches {}-{}".format(*(config.invocations or (0, 1))),
        "enq": "launches {}-{}, each in a file".format(*(config.invocations or (0, 1))),
    }[config.phase]
    host = ", host" if config.host else ""
    return f"{when}: {', '.join(config.engines)}{host}{', operators of each node' if config.fuser else ''}"
