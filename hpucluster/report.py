"""The report of a run: one record per card, and what the cards have in common.

Plain data, modelled and reproducible: the same script, seed and card give the same report, byte for byte. What this
machine took is not part of it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from device.communication import NO_COMMUNICATION

from .job import Job
from .outcome import Outcome
from .run_logs import share_logs
from .snapshots import Snapshot, SnapshotBoard

Report = dict[str, Any]

FORMAT = 2
"""Version of the report's form."""

SHARES = ("host", "compile", "device", "collectives")
"""Where modelled time goes; a card's four figures add up to its `time.total`."""


def unused_card(card: str, module: int) -> Snapshot:
    """The record of a card that its rank's script never used: all zero."""
    return {
        "card": card,
        "module": module,
        "mode": None,
        "software": None,
        "steps": 0,
        "step_source": None,
        "graphs_compiled": 0,
        "recompilations": 0,
        "compile_seconds": 0.0,
        "compilations": [],
        "causes": [],
        "recipe_cache": {"hits": 0, "misses": 0, "entries": 0, "disk_hits": 0},
        "cpu_fallback": {"total": 0, "ops": {}},
        "memory": {"limit": 0, "in_use": 0, "peak": 0, "workspace": 0},
        "memory_timeline": [],
        "memory_at_peak": None,
        "pcie": {"received": 0, "sent": 0},
        "engines": {"MME": 0.0, "TPC": 0.0, "DMA": 0.0, "NIC": 0.0},
        "power_w": 0.0,
        "energy_j": 0.0,
        "time": dict.fromkeys(("total", *SHARES, "step"), 0.0),
        "host_work": {},
        "collectives": NO_COMMUNICATION,
        "utilization": 0.0,
    }


def build_report(job: Job, board: SnapshotBoard, outcome: Outcome) -> Report:
    """The report of a run that has ended, from the cards' last snapshots."""
    cards = []
    for rank, module in enumerate(map(job.module, range(job.world_size))):
        snapshot = board.get(rank)
        record = {**unused_card(job.card, module), **(snapshot or {})}
        step = record["time"]["step"]
        cards.append(
            {
                "rank": rank,
                "box": job.box(rank),
                "used": snapshot is not None,
                **record,
                "steps_per_second": 1.0 / step if step > 0 else 0.0,
            }
        )
    records, logs = share_logs(cards)
    return {
        "format": FORMAT,
        "units": "modelled seconds, bytes, bytes per modelled second",
        "run": {
            "target": job.target,
            "is_module": job.is_module,
            "arguments": list(job.arguments),
            "card": job.card,
            "numerics": job.numerics,
            "host_time": job.host_time,
            "network": job.network,
            "ranks": job.world_size,
            "exit_status": outcome.status,
            "failure": outcome.failure,
        },
        "totals": totals(cards),
        "cards": records,
        "logs": logs,
    }


def totals(cards: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums over the cards, and the causes of recompilation, most frequent first."""
    return {
        "graphs_compiled": sum(card["graphs_compiled"] for card in cards),
        "recompilations": sum(card["recompilations"] for card in cards),
        "compile_seconds": sum(card["compile_seconds"] for card in cards),
        "cpu_fallbacks": sum(card["cpu_fallback"]["total"] for card in cards),
        "causes": merge_causes(cards),
        "waited_for": merge_waits(cards),
    }


def merge_causes(cards: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The causes of recompilation over all cards: text, source line, count and ranks; most frequent first."""
    merged: dict[tuple[str, str], dict[str, Any]] = {}
    for card in cards:
        for cause in card["causes"]:
            key = (cause["cause"], cause["where"])
            entry = merged.setdefault(key, {"cause": key[0], "where": key[1], "count": 0, "ranks": []})
            entry["count"] += cause["count"]
            entry["ranks"].append(card["rank"])
    return sorted(merged.values(), key=lambda entry: (-entry["count"], entry["where"], entry["cause"]))


def merge_waits(cards: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Who was waited for in collectives: rank, seconds over all cards, and by which ranks; the longest first."""
    merged: dict[int, dict[str, Any]] = {}
    for card in cards:
        for wait in card["collectives"]["waited_for"]:
            entry = merged.setdefault(wait["rank"], {"rank": wait["rank"], "seconds": 0.0, "by": []})
            entry["seconds"] += wait["seconds"]
            entry["by"].append(card["rank"])
    return sorted(merged.values(), key=lambda entry: (-entry["seconds"], entry["rank"]))


def write_json(path: str, document: Mapping[str, Any]) -> None:
    """Write `document` as JSON at `path`, aside first and then renamed. Raises OSError."""
    target = Path(path)
    handle, aside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent or Path("."))
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.write("\n")
        os.chmod(aside, 0o666 & ~_umask())
        os.replace(aside, target)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
