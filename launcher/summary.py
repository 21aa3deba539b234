"""The table at the end of a run: what each card did, where its time went, why graphs were recompiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table

from hpucluster.report import SHARES, Report

from .figures import duration, rate, share, size

WIDTH = 80
"""Columns that the table needs at most."""

TOP_CAUSES = 5
TOP_OPERATIONS = 3
TOP_WAITS = 3

_COLUMNS = (
    ("rank", "right"),
    ("card", "right"),
    ("steps", "right"),
    ("graphs", "right"),
    ("re-\ncomp", "right"),
    ("cache\nhits", "right"),
    ("peak\nmemory", "right"),
    ("step\ntime", "right"),
    ("steps\nper s", "right"),
    ("host\n%", "right"),
    ("comp\n%", "right"),
    ("dev\n%", "right"),
    ("coll\n%", "right"),
)


def print_summary(report: Report, file: TextIO, wall_clock: Mapping[str, float] | None = None) -> None:
    """Print the report for people, at most `WIDTH` columns wide (wider terminals are not filled).

    `wall_clock`: seconds of each phase on this machine, which are not modelled and stand apart.
    """
    console = Console(file=file, highlight=False, soft_wrap=True)
    run, cards = report["run"], report["cards"]
    console.print()
    console.print(_title(run, cards), markup=False)
    console.print(_table(cards), width=max(WIDTH, console.width), crop=False)
    for line in _notes(report, wall_clock or {}):
        console.print(line, markup=False)


def _title(run: dict[str, Any], cards: list[dict[str, Any]]) -> str:
    parts = [f"{run['ranks']} x {run['card']}"]
    used = [card for card in cards if card["used"]]
    if used:
        parts += [f"{used[0]['mode']} mode", f"software {used[0]['software']}"]
    if run["numerics"] == "off":
        parts.append("shapes only")
    if run.get("host_time") == "measured":
        parts.append("with this machine's host time (not reproducible)")
    return ", ".join(parts) + ": modelled time and memory of each card"


def _table(cards: list[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    for heading, side in _COLUMNS:
        table.add_column(heading, justify=side, no_wrap=True)  # type: ignore[arg-type]
    boxes = {card.get("box", 0) for card in cards}
    for card in cards:
        where = f"{card['box']}.{card['module']}" if len(boxes) > 1 else str(card["module"])
        table.add_row(*_row(card, where))
    return table


def _row(card: dict[str, Any], where: str) -> list[str]:
    time = card["time"]
    return [
        str(card["rank"]),
        where,
        str(card["steps"]),
        str(card["graphs_compiled"]),
        str(card["recompilations"]),
        str(card["recipe_cache"]["hits"]),
        size(card["memory"]["peak"]),
        duration(time["step"]),
        rate(card["steps_per_second"]),
        *(share(time[name], time["total"]) for name in SHARES),
    ]


def _notes(report: Report, wall_clock: Mapping[str, float]) -> list[str]:
    cards, totals = report["cards"], report["totals"]
    lines = []
    if not any(card["used"] for card in cards):
        lines.append("No rank used its card: does the script put its model and data on device 'hpu'?")
    causes = totals["causes"]
    if causes:
        lines.append("Why graphs were compiled again, over all cards:")
        lines += [f"{cause['count']:6} x  {cause['where']}: {cause['cause']}" for cause in causes[:TOP_CAUSES]]
        if len(causes) > TOP_CAUSES:
            lines.append(f"         and {len(causes) - TOP_CAUSES} more causes; --report FILE.json lists all")
    if totals["cpu_fallbacks"]:
        lines.append(f"Operators without a kernel on the card, run on the CPU: {_fallbacks(cards)}")
    lines += _collectives(cards, totals)
    if wall_clock:
        phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in wall_clock.items() if name != "end")
        lines.append(f"On this machine's clock (not modelled): {phases}.")
    return lines


def _collectives(cards: list[dict[str, Any]], totals: Mapping[str, Any]) -> list[str]:
    """What the busiest card's collectives were, and who kept others waiting."""
    busiest = max(cards, key=lambda card: card["collectives"]["seconds"])
    figures = busiest["collectives"]
    if not figures["count"]:
        return []
    rows = sorted(figures["operations"], key=lambda row: (-row["seconds"], row["operation"]))[:TOP_OPERATIONS]
    told = ", ".join(
        f"{row['count']} {row['operation']}{_among(row['ranks'], len(cards))} of {size(row['bytes'] / row['count'])} "
        f"{duration(row['seconds'])}"
        for row in rows
    )
    hidden = share(figures["hidden"], figures["seconds"])
    lines = [f"On the network (rank {busiest['rank']}): {told}; {hidden} % hidden by computing."]
    waits = totals["waited_for"]
    if waits:
        longest = "; ".join(
            f"rank {wait['rank']} for {duration(wait['seconds'])} (by {_ranks(wait['by'])})"
            for wait in waits[:TOP_WAITS]
        )
        lines.append(f"Ranks that others waited for in collectives: {longest}.")
    return lines


def _among(ranks: int, everyone: int) -> str:
    return "" if ranks == everyone else f" among {ranks} ranks"


def _ranks(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks"


def _fallbacks(cards: list[dict[str, Any]]) -> str:
    counts: dict[str, int] = {}
    for card in cards:
        for name, count in card["cpu_fallback"]["ops"].items():
            counts[name] = counts.get(name, 0) + count
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} x{count}" for name, count in ordered[:TOP_CAUSES])
