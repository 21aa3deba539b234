"""The cards' logs in a report: equal ones once, each as compact JSON in one string, since nobody reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from device.replay import LogError, Record, read_record


class ReplayError(ValueError):
    """A report cannot be replayed; the message says why."""


def share_logs(cards: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Cards' records with each "log" replaced by its number in the returned list of different logs, as compact JSON.

    The ranks of a job mostly do the same, and so have equal logs.
    """
    numbers: dict[str, int] = {}
    shared = []
    for card in cards:
        record = dict(card)
        if record.get("log") is not None:
            text = json.dumps(record["log"], separators=(",", ":"))
            record["log"] = numbers.setdefault(text, len(numbers))
        shared.append(record)
    return shared, list(numbers)


def records_of(report: Any, version: int) -> dict[int, Record]:
    """The logs in a report of that version, by rank.

    Raises:
        ReplayError: it is no report, has no log, or a log is damaged.
    """
    if not isinstance(report, dict) or not isinstance(report.get("cards"), list):
        raise ReplayError("it is no report of hpurun")
    if report.get("format") != version:
        raise ReplayError(f"its format is {report.get('format')!r}, not {version}; write it again")
    read: dict[Any, Record] = {}
    records = {}
    for number, card in enumerate(report["cards"]):
        try:
            rank, log = card["rank"], card.get("log")
            if log is None:
                continue
            if not isinstance(rank, int) or rank in records or (isinstance(log, int) and log < 0):
                raise ValueError(f"its rank is {rank!r} and its log {log!r}; each rank stands once, as a number")
            key = log if isinstance(log, int) else f"rank {rank}"
            if key not in read:
                read[key] = read_record(json.loads(report["logs"][log]) if isinstance(log, int) else log)
            records[rank] = read[key]
        except LogError as error:
            raise ReplayError(f"the log of card {number} is damaged: {error}") from error
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise ReplayError(f"the record of card {number} is damaged: {error}") from error
    if not records:
        raise ReplayError("it holds no log of a card's run: no rank used its card, or an older hpurun wrote it")
    return records
