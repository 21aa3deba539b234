"""`hl-prof-config`: the command line. Alone on a terminal it asks; alone elsewhere it tells the settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from device.profiler import document as names
from device.profiler.configuration import RANGED_PHASES, configuration, default_path
from device.profiler.document import Document

from ..console_script import run
from ..messages import UserError, readable
from .interactive import edit
from .settings import SETTINGS, Invocations, Setting, architecture, switch
from .table import settings_table, template_summary
from .unit_options import all_options, described, put_unit

NAME = "hl-prof-config"

EPILOG = """\b
Every option may begin with one dash or two, and take its value after a blank
or "=": -phase=multi-enq, --phase multi-enq. Settings add up from call to call,
unless -e off or --use-template begins anew.
\b
Single units and their bus monitors, by generation (-h -gaudi3 lists them):
  --tpc0 on  --mme0_acc off  --nic on  --tpc_bmon '[[0,1][bw,lat,out][][]]'
\b
Then, to profile a run:
  HABANA_PROFILE=1 python train.py            with the file just written
  HABANA_PROFILE=1 HABANA_PROF_CONFIG=FILE python train.py
  HABANA_PROFILE=profile_api python train.py  with a template
\b
Files: ~/.habana/prof_config.json, or --config-filename. hltv shows a trace,
habana_perf_tool tells where its time went."""


class _Command(click.Command):
    """A command whose options begin with one dash or two. A misspelt one is not taken for short ones in a row."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = {name for parameter in self.params for name in parameter.opts}
        for number, arg in enumerate(args):
            name = arg.partition("=")[0]
            attached = name[:2] in known and name[2:3].isdigit()  # -g1-20
            is_value = number > 0 and args[number - 1] in known and "=" not in args[number - 1]
            if len(name) > 2 and name[0] == "-" and name not in known and not attached and not is_value:
                # With two dashes, click finds the similar ones.
                raise click.NoSuchOption(name, possibilities=_similar(name, known), ctx=ctx)
        return super().parse_args(ctx, args)


class _Option(click.Option):
    """An option whose help leaves out the spelling with one dash."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        spelt = self.opts
        self.opts = [name for name in spelt if name.startswith("--") or len(name) == 2]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = spelt


def _similar(name: str, known: set[str]) -> list[str]:
    letters = name.lstrip("-").rstrip("0123456789")
    stem = letters[:3]
    return sorted(option for option in known if option.startswith("--" + stem))[:3]


def _spellings(*names_: str) -> list[str]:
    """Long options with one dash too."""
    return [*names_, *(name[1:] for name in names_ if name.startswith("--"))]


def _parameters() -> list[click.Parameter]:
    options: list[click.Parameter] = [
        _Option([*_spellings("--help"), "-h", "help"], is_flag=True, help="Show this; with -gaudi3, its units."),
        _Option(
            ["-e", "keep"],
            metavar="on|off",
            help="on: change the file that is there (default); off: begin with the defaults.",
        ),
    ]
    options += [
        _Option([*_spellings(f"--{arch}"), arch], is_flag=True, help=f"The card is a {arch}.")
        for arch in names.ARCHITECTURES
    ]
    options += [
        _Option([*_spellings("--list-templates"), "list_templates"], is_flag=True, help="Name the templates."),
        _Option([*_spellings("--use-template"), "template"], metavar="NAME", help="Begin with a template."),
        _Option(
            [*_spellings("--config-filename"), "file"],
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="The file to write; default ~/.habana/prof_config.json.",
        ),
    ]
    options += [
        _Option([*_spellings(*one.options), _parameter(one)], metavar=one.values, help=one.meaning) for one in SETTINGS
    ]
    options.append(_Option(["-i", "ignored"], is_flag=True, hidden=True))  # of old scripts; changes nothing
    options += [
        _Option([*_spellings(name), _unit_parameter(name)], hidden=True, metavar="on|off") for name in all_options()
    ]
    return options


def _parameter(setting: Setting) -> str:
    return "setting_" + setting.title.replace(" ", "_")


def _unit_parameter(option: str) -> str:
    return "unit_" + option[2:]


def command_function(**given: Any) -> None:
    """Set what the profiler records, and into which files."""
    ctx = click.get_current_context()
    arch = _architecture(given)
    if given["help"]:
        click.echo(ctx.get_help())
        if arch:
            click.echo(f"\n{arch} has these units, each an option that takes on or off:\n  {described(arch)}")
        return
    if given["list_templates"]:
        for name in names.template_names():
            click.echo(f"{name:24}{template_summary(name)}")
        return
    if not any(value is not None and value is not False for value in given.values()):
        _alone(ctx)
        return
    _edit_file(given, arch)


def _architecture(given: dict[str, Any]) -> str | None:
    chosen = [arch for arch in names.ARCHITECTURES if given[arch]]
    if len(chosen) > 1:
        raise UserError(f"-{' -'.join(chosen)}: choose one of them")
    return chosen[0] if chosen else None


def _alone(ctx: click.Context) -> None:
    path = default_path(os.environ)
    if sys.stdin.isatty() and sys.stdout.isatty():
        edit(path)
        return
    click.echo(ctx.get_help())
    document = _read(path) if path.exists() else names.defaults()
    console = Console(highlight=False)
    console.print()
    console.print(settings_table(document, f"Settings in {path}" if path.exists() else "Settings (defaults)"))


def _edit_file(given: dict[str, Any], arch: str | None) -> None:
    path = given["file"] or default_path(os.environ)
    keep = True if given["keep"] is None else _switch("-e", given["keep"])
    document, begun = _begin(path, keep, given["template"])
    if arch:
        document[names.ARCHITECTURE] = arch
    notes = _apply_settings(document, given) + _apply_units(document, given)
    with readable(sys.stdout):
        names.write(document, path)
        if begun:
            click.echo(f"Config file was reset to {begun}")
        click.echo(f"Config file was edited: {path}")
    for note in notes + _doubts(document):
        click.echo(f"{NAME}: {note}", err=True)


def _begin(path: Path, keep: bool, template: str | None) -> tuple[Document, str]:
    """The document to change, and what it was reset to, if it was."""
    if template is not None:
        return names.template(template), f"the template {template}"
    if keep and path.exists():
        return _read(path), ""
    return names.defaults(), "" if keep else "the defaults"


def _read(path: Path) -> Document:
    document = names.read(path)
    unknown = names.check(document, f"profiler configuration {path}")
    if unknown:
        click.echo(f"{NAME}: {path}: unknown and without effect: {', '.join(unknown)}", err=True)
    return names.defaults() | document


def _apply_settings(document: Document, given: dict[str, Any]) -> list[str]:
    notes = []
    for setting in SETTINGS:
        text = given[_parameter(setting)]
        if text is None:
            continue
        is_range = isinstance(setting, Invocations)
        if is_range and given["setting_phase"] not in (None, *RANGED_PHASES):
            raise UserError(
                f"{setting.options[0]} {text}: --phase {given['setting_phase']} takes no range; leave one of them out"
            )
        before = configuration(document).phase
        try:
            setting.put(document, text)
        except ValueError as error:
            raise UserError(f"{setting.options[0]} {text}: {error}") from error
        after = configuration(document).phase
        if is_range and after != before:
            notes.append(f"phase is {after} now, because {before} takes no range")
    return notes


def _apply_units(document: Document, given: dict[str, Any]) -> list[str]:
    arch = architecture(document)
    monitors = []
    for option in all_options():
        text = given[_unit_parameter(option)]
        if text is None:
            continue
        try:
            if put_unit(document, arch, option, text).is_monitor:
                monitors.append(option)
        except ValueError as error:
            raise UserError(f"{option} {text}: {error}") from error
    return (
        [f"{', '.join(monitors)}: kept in the file; an emulated card has no bus monitors to read"] if monitors else []
    )


def _doubts(document: Document) -> list[str]:
    """What the user may not expect of these settings."""
    config = configuration(document)
    doubts = []
    if not config.host and not (config.hardware_trace and config.engines):
        doubts.append("nothing will be profiled: neither --host nor --hw-trace with an engine is on")
    others = set(names.INVOCATION_FORMATS) - {"hltvWithHost", *names.MERGED_FORMATS}
    unwritten = [name for name in sorted(others) if document.get(f"{names.PER_INVOCATION}.{name}")]
    if unwritten:
        doubts.append(f"--invoc {','.join(unwritten)}: kept in the file; not written by an emulated card")
    if document.get(f"{names.ANALYZER}.traceAnalyzerXlsx"):
        doubts.append("--trace-analyzer-xlsx on: the table of nodes is written as CSV, not as XLSX")
    return doubts


def _switch(option: str, text: str) -> bool:
    try:
        return switch(text)
    except ValueError as error:
        raise UserError(f"{option} {text}: {error}") from error


command = _Command(
    NAME,
    params=_parameters(),
    callback=command_function,
    add_help_option=False,
    epilog=EPILOG,
    help=command_function.__doc__,
)


def main() -> None:
    """Console script."""
    run(command, NAME)
