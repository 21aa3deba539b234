"""What a client's run must have left: losses that fall, and a report of every card with recipes, memory and time.

`python check.py CARDS LOSSES REPORTS`: LOSSES is a file with one loss a line, REPORTS the folder that HPUCLUSTER_REPORT
named. Prints a line per card; status 1 and a line per fault otherwise.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

FALLS_TO = 0.9
"""The mean of the last quarter of the losses is at most this share of that of the first quarter."""


def loss_faults(path: Path) -> list[str]:
    """What is wrong with the losses in the file."""
    try:
        losses = [float(line) for line in path.read_text().split()]
    except (OSError, ValueError) as error:
        return [f"no losses: {error}"]
    if len(losses) < 4:
        return [f"{len(losses)} losses are too few to see one fall; the client has to write four or more"]
    if not all(map(math.isfinite, losses)):
        return [f"losses that are no finite number: {losses}"]
    quarter = len(losses) // 4
    first, last = sum(losses[:quarter]) / quarter, sum(losses[-quarter:]) / quarter
    if last > FALLS_TO * first:
        return [f"the loss does not fall: {first:.4g} in the first quarter of {len(losses)}, {last:.4g} in the last"]
    print(f"  loss {first:.4g} -> {last:.4g} in {len(losses)} records")
    return []


def card_faults(card: dict[str, Any]) -> list[str]:
    """What a card's report lacks."""
    needed = {
        "steps": card["steps"],
        "recipes": card["recipe_cache"]["entries"],
        "peak memory": card["memory"]["peak"],
        "modelled time": card["time"]["total"],
        "time per step": card["time"]["step"],
    }
    return [f"rank {card['rank']}: the report shows no {name}" for name, value in needed.items() if not value > 0]


def report_faults(folder: Path, count: int) -> list[str]:
    """What is wrong with the reports in the folder."""
    cards = [json.loads(path.read_text()) for path in sorted(folder.glob("rank*.json"))]
    faults = [fault for card in cards for fault in card_faults(card)]
    if sorted(card["rank"] for card in cards) != list(range(count)):
        faults.append(f"reports of ranks {[card['rank'] for card in cards]}; expected {count}")
    if len({card["module"] for card in cards}) != len(cards):
        faults.append(f"two ranks used one card: modules {[card['module'] for card in cards]}")
    if not faults:
        for card in cards:
            print(
                f"  rank {card['rank']}: {card['mode']} mode, {card['steps']} steps,"
                f" {card['recipe_cache']['entries']} recipes, peak {card['memory']['peak'] / 2**20:.1f} MB,"
                f" {card['time']['step'] * 1e6:.0f} us per step, collectives {card['collectives']['count']}"
            )
    return faults


def main(cards: str, losses: str, reports: str) -> int:
    faults = loss_faults(Path(losses)) + report_faults(Path(reports), int(cards))
    for fault in faults:
        print(f"check.py: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
