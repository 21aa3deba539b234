"""`hpurun replay REPORT.json --card gaudi3`: what a finished run would have taken on another card, or with other links
between the cards, side by side.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TextIO

import click
from rich import box
from rich.console import Console
from rich.table import Table

from device.errors import ConfigurationError
from hpucluster.replay import compare
from hpucluster.report import SHARES, write_json
from hpucluster.run_logs import ReplayError

from .checks import check_report, choose_card
from .figures import NONE, duration, rate, share, size
from .messages import UserError, readable
from .network_options import network_options, to_environment

EPILOG = """\b
Examples:
  hpurun --report run.json --cards 8 train.py
  hpurun replay run.json --card gaudi3      the same run on Gaudi3 cards
  hpurun replay run.json --card mine.toml   on a card of your own description
  hpurun replay run.json --links 3:8=down   with a port of rank 3 down
\b
The recorded programs are placed on the other card, with its host and links:
nothing runs again. The peak of memory is the recorded one."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.argument("report", metavar="REPORT.json")
@click.option("--card", metavar="gaudi|gaudi2|gaudi3|FILE.toml", help="The other card. Default: the same.")
@network_options
@click.option("--report", "out", metavar="OUT.json", help="Write the comparison as JSON.")
def command(report: str, card: str | None, out: str | None, **options: Any) -> int:
    """Replay the run of REPORT.json, as `hpurun --report` writes it, on another kind of card or another network."""
    if card is None and not any(options.values()):
        raise UserError("nothing is to be different: give --card, --fabric, --links or --algorithm")
    spec = None if card is None else choose_card(card)
    if out is not None:
        check_report(out)
    document = _read(report)
    try:
        comparison = compare(document, spec, another_network=bool(to_environment(options)))
    except ReplayError as error:
        raise UserError(f"{report} cannot be replayed: {error}") from error
    except ConfigurationError as error:
        raise UserError(f"--card {card}: {error}" if card is not None else str(error)) from error
    if out is not None:  # first: nobody may be reading what is printed
        try:
            write_json(out, comparison)
        except OSError as error:
            raise UserError(f"--report {out}: cannot be written: {error.strerror}; choose another file") from error
    with readable(sys.stdout):
        print_comparison(comparison, sys.stdout)
        sys.stdout.flush()
    return 0


def _read(path: str) -> Any:
    try:
        return json.loads(Path(path).read_bytes())
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read: {error.strerror}; give a report that hpurun --report has written"
        ) from error
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{path} is no report, or a damaged one: {error}; give one that hpurun --report has written"
        ) from error


# -- the table -----------------------------------------------------------------------------------------------------


def print_comparison(comparison: dict[str, Any], file: TextIO) -> None:
    """Print for people: the rank that takes longest in full, all ranks in short, and the longest engine nodes."""
    console = Console(file=file, highlight=False, soft_wrap=True)
    before, after = comparison["recorded"], comparison["replayed"]
    slowest = max(range(len(before)), key=lambda number: (before[number]["time"]["total"], -number))
    names = comparison["cards"]
    title = f"{names[0]} as recorded, {names[1]} replayed: modelled time and memory"
    console.print()
    console.print(f"{title} of rank {before[slowest]['rank']}" if len(before) > 1 else title, markup=False)
    ratios = comparison["ratios"]
    tables = [_figures(names, before[slowest], after[slowest], ratios[slowest])]
    if len(before) > 1:
        tables.append(_ranks(names, before, after, ratios))
    tables.append(_nodes(names, comparison["nodes"]))
    for table in tables:
        console.print(table, crop=False)
        console.print()
    for line in _notes(comparison):
        console.print(line, markup=False)


def _table(columns: list[tuple[str, str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    for heading, side in columns:
        table.add_column(heading, justify=side, no_wrap=True)  # type: ignore[arg-type]
    return table


def _ratio(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def _figures(names: list[str], before: dict[str, Any], after: dict[str, Any], ratios: dict[str, Any]) -> Table:
    table = _table([("", "left"), (names[0], "right"), (names[1], "right"), ("ratio", "right")])
    sides = (before, after)
    table.add_row("step", *(duration(side["time"]["step"]) for side in sides), _ratio(ratios["step"]))
    table.add_row("steps per s", *(rate(side["steps_per_second"]) for side in sides), "")
    table.add_row("total", *(duration(side["time"]["total"]) for side in sides), _ratio(ratios["total"]))
    table.add_row("device", *(duration(side["device_seconds"]) for side in sides), _ratio(ratios["device"]))
    table.add_row("compile", *(duration(side["compile_seconds"]) for side in sides), _ratio(ratios["compile"]))
    table.add_row(
        "collectives", *(duration(side["collectives"]["seconds"]) for side in sides), _ratio(ratios["collectives"])
    )
    for name in SHARES:
        table.add_row(f"{name} %", *(share(side["time"][name], side["time"]["total"]) for side in sides), "")
    table.add_row("peak memory", *(size(side["memory"]["peak"]) for side in sides), "")
    table.add_row("of", *(size(side["memory"]["limit"]) for side in sides), "")
    return table


def _ranks(
    names: list[str], before: list[dict[str, Any]], after: list[dict[str, Any]], ratios: list[dict[str, Any]]
) -> Table:
    table = _table(
        [("rank", "right"), (f"{names[0]} step", "right"), (f"{names[1]} step", "right"), ("ratio", "right")]
    )
    for one, other, ratio in zip(before, after, ratios, strict=True):
        steps = (duration(side["time"]["step"]) for side in (one, other))
        table.add_row(str(one["rank"]), *steps, _ratio(ratio["step"]))
    return table


def _nodes(names: list[str], nodes: list[dict[str, Any]]) -> Table:
    table = _table(
        [
            ("longest engine nodes", "left"),
            ("engine", "left"),
            *((name, "right") for name in names),
            ("ratio", "right"),
            ("bound by", "left"),
            ("where", "left"),
        ]
    )
    for node in nodes:
        one, other = node["seconds"]
        bounds = list(dict.fromkeys(node["bound"]))
        table.add_row(
            node["kernel"],
            node["engine"],
            duration(one),
            duration(other),
            _ratio(one / other if other > 0 else None),
            " -> ".join(bounds),
            node["where"],
        )
    return table


def _notes(comparison: dict[str, Any]) -> list[str]:
    lines = []
    for side in comparison["replayed"]:
        memory = side["memory"]
        if not memory["fits"]:
            lines.append(
                f"Does not fit: rank {side['rank']} held {size(memory['peak'])}, and a {side['card']} has "
                f"{size(memory['limit'])}; use a smaller batch."
            )
    if comparison["truncated"]:
        lines.append("The run was too varied to be logged to its end: both sides show its beginning.")
    if comparison["unmatched"]:
        lines.append(f"{comparison['unmatched']} collectives went on without a rank whose log ends before.")
    return lines


def main(arguments: list[str]) -> int:
    """Run the command; its exit status."""
    status: int = command.main(arguments, prog_name="hpurun replay", standalone_mode=False)
    return status
