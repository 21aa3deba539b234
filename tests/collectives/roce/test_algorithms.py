"""Ring and halving-doubling, which are there to compare with."""

from __future__ import annotations

import math

import pytest

from collectives.roce.algorithms import fitting

from .networks import GIB, HOP, KIB, LEFT, MESSAGE, MIB, PHASE, PORT, whole, wire


def one(nbytes: float, left: float = 1.0) -> float:
    """A message of one pair."""
    return PHASE + MESSAGE + wire(nbytes / 3) / left / PORT


def test_ring_in_a_box() -> None:
    ring = whole(algorithm="ring")
    slices = GIB // (512 * KIB)
    for pattern, seconds in (
        ("all_reduce", 14 * one(GIB / 8)),
        ("reduce_scatter", 7 * one(GIB / 8)),
        ("all_to_all", 7 * one(GIB / 2)),
        ("broadcast", (6 + slices) * one(512 * KIB)),
        ("gather", 7 * one(GIB)),
    ):
        assert ring.seconds(pattern, GIB) == pytest.approx(seconds, rel=1e-12), pattern


def test_ring_leaves_a_box_by_one_card() -> None:
    assert whole(2, algorithm="ring").seconds("all_reduce", GIB) == pytest.approx(
        30 * (one(GIB / 16, LEFT) + HOP), rel=1e-12
    )


def test_halving_doubling() -> None:
    cube = whole(algorithm="halving_doubling")
    half = one(GIB / 2) + one(GIB / 4) + one(GIB / 8)
    assert cube.seconds("all_reduce", GIB) == pytest.approx(2 * half, rel=1e-12)
    assert cube.seconds("all_to_all", GIB) == pytest.approx(3 * one(GIB / 2), rel=1e-12)
    assert cube.seconds("broadcast", KIB) == pytest.approx(3 * one(KIB), rel=1e-12)
    assert cube.seconds("gather", GIB) == pytest.approx(one(GIB) + one(2 * GIB) + one(4 * GIB), rel=1e-12)


def test_halving_doubling_among_five() -> None:
    five = whole(cards=5, algorithm="halving_doubling")
    half = one(GIB / 2) + one(GIB / 4)
    assert five.seconds("all_reduce", GIB) == pytest.approx(one(GIB) + 2 * half + one(GIB), rel=1e-12)
    assert [phase.name for phase in five.explain("all_reduce", GIB)][::5] == ["hand in", "hand back"]


def test_direct_is_the_best_in_a_box() -> None:
    times = {
        name: whole(algorithm=name).seconds("all_reduce", 64 * MIB) for name in ("direct", "ring", "halving_doubling")
    }
    assert min(times, key=times.__getitem__) == "direct" and times["ring"] > 6 * times["direct"]
    assert whole().seconds("all_reduce", 64 * MIB) == times["direct"]


def test_which_algorithm_a_name_means() -> None:
    assert fitting("auto", [8]) == fitting("hierarchical", [8]) == fitting("auto", [8, 7]) == "direct"
    assert fitting("auto", [2, 2]) == fitting("hierarchical", [1, 1]) == "hierarchical"
    assert fitting("ring", [8, 7]) == "ring" and fitting("direct", [8, 8]) == "direct"
    assert math.isclose(
        whole(2, algorithm="direct").seconds("all_reduce", GIB),
        2 * (PHASE + HOP + 8 * (MESSAGE + wire(GIB / 16 / 3) / LEFT / PORT)),
    )
