"""The closing table: every figure of a card, 80 columns, causes with their source line."""

from __future__ import annotations

import io
from typing import Any

import pytest

from hpucluster.report import SHARES, totals, unused_card
from launcher import figures
from launcher.summary import WIDTH, print_summary


def record(rank: int, **changes: Any) -> dict[str, Any]:
    """A card's record with large figures."""
    card = {
        **unused_card("gaudi2", rank),
        "mode": "lazy",
        "software": "1.19.0",
        "steps": 12345,
        "graphs_compiled": 4321,
        "recompilations": 4320,
        "recipe_cache": {"hits": 123456, "misses": 4321, "entries": 4321},
        "memory": {"limit": 10**11, "in_use": 10**9, "peak": 94 * 2**30, "workspace": 0},
        "time": {
            "total": 10.0,
            "host": 1.0,
            "compile": 4.5,
            "device": 4.0,
            "collectives": 0.5,
            "step": 0.0123,
        },
    }
    return {"rank": rank, "used": True, **card, "steps_per_second": 81.3, **changes}


def report(cards: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    run = {"ranks": len(cards), "card": "gaudi2", "numerics": "on"}
    return {"run": run, "cards": cards, "totals": totals(cards), **changes}


def printed(document: dict[str, Any], wall_clock: dict[str, float] | None = None) -> str:
    out = io.StringIO()
    print_summary(document, out, wall_clock)
    return out.getvalue()


def test_a_row_per_card_within_80_columns() -> None:
    text = printed(report([record(rank) for rank in range(8)]))
    lines = text.splitlines()
    assert max(len(line) for line in lines) <= WIDTH
    rows = [line.split() for line in lines if line.split()[1:2] and line.split()[1].isdigit()]
    assert [row[0] for row in rows] == [str(rank) for rank in range(8)]
    expected = "12345 4321 4320 123456 94.0 GB 12.3 ms 81.3 10 45 40 5"
    assert " ".join(rows[3][2:]) == expected
    assert "…" not in text
    assert "8 x gaudi2, lazy mode, software 1.19.0" in text


def test_causes_are_merged_over_the_cards_and_shown_with_their_line() -> None:
    shape = {"cause": "input 0: [64, 1] was [32, 1]", "where": "train.py:31", "count": 3}
    rare = [{"cause": f"constant {n}", "where": f"model.py:{n}", "count": 1} for n in range(7)]
    cards = [record(0, causes=[shape, *rare]), record(1, causes=[shape])]
    text = printed(report(cards))
    assert "     6 x  train.py:31: input 0: [64, 1] was [32, 1]" in text
    assert "and 3 more causes" in text
    merged = totals(cards)["causes"]
    assert merged[0] == {**shape, "count": 6, "ranks": [0, 1]}
    assert [cause["where"] for cause in merged[1:]] == [f"model.py:{n}" for n in range(7)]


def test_unused_cards_and_fallbacks_are_explained() -> None:
    unused = {"rank": 0, "used": False, **unused_card("gaudi2", 0), "steps_per_second": 0.0}
    assert "device 'hpu'" in printed(report([unused]))
    fallback = {"total": 3, "ops": {"aten::foo": 1, "aten::bar": 2}}
    assert "aten::bar x2, aten::foo x1" in printed(report([record(0, cpu_fallback=fallback)]))


def test_wall_clock_stands_apart() -> None:
    text = printed(report([record(0)]), wall_clock={"ray": 1.5, "cards": 6.0, "script": 20.25, "end": 0.5})
    assert "not modelled): ray 1.5 s, cards 6.0 s, script 20.2 s." in text


def test_shares_are_the_parts_of_the_total() -> None:
    card = record(0)
    assert sum(card["time"][share] for share in SHARES) == pytest.approx(card["time"]["total"])


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (figures.duration(0), "-"),
        (figures.duration(1.2345), "1.23 s"),
        (figures.duration(123.4), "123 s"),
        (figures.duration(0.0123), "12.3 ms"),
        (figures.duration(45e-6), "45.0 us"),
        (figures.size(0), "-"),
        (figures.size(512), "512 B"),
        (figures.size(3 * 2**30), "3.00 GB"),
        (figures.rate(0), "-"),
        (figures.rate(813.4), "813"),
        (figures.rate(9.996), "10.0"),
        (figures.share(1, 3), "33"),
        (figures.share(0, 0), "-"),
    ],
)
def test_figures(shown: str, text: str) -> None:
    assert shown == text


def test_collectives_and_who_was_waited_for() -> None:
    figures = {"count": 3, "bytes": 3 * 2**20, "seconds": 0.010, "waited": 0.5, "exposed": 0.506, "hidden": 0.004}
    rows = [{"operation": "all_reduce", "ranks": 3, **figures, "bytes_per_s": 3e8}]
    waiting = {**figures, "waited_for": [{"rank": 2, "seconds": 0.5}], "operations": rows}
    last = {**waiting, "waited": 0.0, "waited_for": []}
    cards = [record(rank, collectives=last if rank == 2 else waiting) for rank in range(3)]
    text = printed(report(cards))
    assert "On the network (rank 0): 3 all_reduce of 1.00 MB 10.0 ms; 40 % hidden by computing." in text
    assert "Ranks that others waited for in collectives: rank 2 for 1.00 s (by 2 ranks)." in text
    assert totals(cards)["waited_for"] == [{"rank": 2, "seconds": 1.0, "by": [0, 1]}]
