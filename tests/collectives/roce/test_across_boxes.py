"""Several boxes: the hierarchical algorithm against its formula, and what slows it."""

from __future__ import annotations

import math

import pytest

from collectives.roce import fabric
from collectives.roce.place import Place

from .networks import GIB, HOP, KIB, LEFT, MESSAGE, MIB, PHASE, PORT, network, whole, wire


def pipelined(first: float, second: float, k1: int, k2: int) -> float:
    """Without latencies; the first has more slices than the second, or is the second of a mirrored pair."""
    return max(first, first / k1 + second, k2 * first / k1 + second / k2)


def half_of_all_reduce(
    boxes: int, nbytes: int, inside: float = PORT, outside: float = PORT, far_boxes: int = 0, hops: int = 1
) -> float:
    """Reduce-scatter of `boxes` HLS-2; `far_boxes` of them behind the spines."""
    part = nbytes / (8 * boxes)
    first = boxes * (wire(part / 3) / inside + MESSAGE)
    second = (boxes - 1 - far_boxes) * (wire(part / 3) / LEFT / outside + MESSAGE)
    second += far_boxes * (wire(part / 3) / LEFT**3 / outside + MESSAGE)
    slices = math.ceil(part / (512 * KIB))
    return 2 * PHASE + hops * HOP + pipelined(first, second, boxes * slices, (boxes - 1) * slices)


@pytest.mark.parametrize("boxes", (2, 4, 8))
@pytest.mark.parametrize("nbytes", (MIB, GIB))
def test_boxes_at_one_leaf(boxes: int, nbytes: int) -> None:
    half = half_of_all_reduce(boxes, nbytes)
    group = whole(boxes)
    assert group.algorithm == "hierarchical"
    for pattern, seconds in (("reduce_scatter", half), ("all_gather", half), ("all_reduce", 2 * half)):
        assert group.seconds(pattern, nbytes) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("boxes", (16, 64))
def test_boxes_behind_spines(boxes: int) -> None:
    half = half_of_all_reduce(boxes, GIB, far_boxes=boxes - 4, hops=3)  # four boxes at a leaf
    assert whole(boxes).seconds("all_reduce", GIB) == pytest.approx(2 * half, rel=1e-12)


def test_bandwidth_stays_within_a_tenth_of_one_box() -> None:
    bandwidths = [GIB / whole(boxes).seconds("all_reduce", GIB) for boxes in (1, 2, 4, 16, 64)]
    assert bandwidths == sorted(bandwidths, reverse=True) and len(set(bandwidths)) == 5
    assert bandwidths[-1] >= 0.9 * bandwidths[0]


def test_one_cards_slow_way_out_slows_everyone() -> None:
    for links in (["0:8=0.5", "0:22=0.5", "0:23=0.5"], ["2.5:*=1", "2.5:8=0.5", "2.5:22=0.5", "2.5:23=0.5"]):
        seconds = whole(4, links=links).seconds("all_reduce", GIB)
        assert seconds == pytest.approx(2 * half_of_all_reduce(4, GIB, outside=PORT / 2), rel=1e-12)
    # About three quarters of 2 (S/8)/q: the way out now takes longer than the box.
    assert seconds == pytest.approx(2 * 3 / 4 * GIB / 8 / (1.5 * PORT * LEFT), rel=0.02)


def test_a_port_down_in_a_box_slows_everyone() -> None:
    part = GIB / 32
    first = 4 * (wire(part / 2) / PORT + MESSAGE)
    second = 3 * (wire(part / 3) / LEFT / PORT + MESSAGE)
    slices = math.ceil(part / (512 * KIB))
    half = 2 * PHASE + HOP + pipelined(first, second, 4 * slices, 3 * slices)
    assert whole(4, links=["1.2:0=down"]).seconds("all_reduce", GIB) == pytest.approx(2 * half, rel=1e-12)


def test_a_port_out_that_is_down_leaves_the_others() -> None:
    part = GIB / 16
    first = 2 * (wire(part / 3) / PORT + MESSAGE)
    second = wire(part / 2) / LEFT / PORT + MESSAGE
    slices = math.ceil(part / (512 * KIB))
    half = 2 * PHASE + HOP + pipelined(first, second, 2 * slices, slices)
    assert whole(2, links=["9:22=down"]).seconds("all_reduce", GIB) == pytest.approx(2 * half, rel=1e-12)


def test_oversubscribed_leaves() -> None:
    """Two leaves with four boxes each: of each card's 7 messages 4 go up, 32 cards x 3 ports over 12 spines."""
    part = GIB / 64
    first = 8 * (wire(part / 3) / PORT + MESSAGE)
    second = 32 * 4 * 3 / 12 * wire(part / 3) / LEFT**3 / (96 / 2 / 12 * PORT)  # half of 96 ports, over 12 spines
    slices = math.ceil(part / (512 * KIB))
    half = 2 * PHASE + 3 * HOP + pipelined(first, second, 8 * slices, 7 * slices)
    group = whole(8, fabric="leaf-spine-oversubscribed")
    assert group.seconds("all_reduce", GIB) == pytest.approx(2 * half, rel=1e-12)
    assert group.explain("all_reduce", GIB)[1].link == "leaf0/spine0 up"
    at_one_leaf = whole(4, fabric="leaf-spine-oversubscribed")
    assert at_one_leaf.seconds("all_reduce", GIB) == whole(4, fabric="leaf-spine").seconds("all_reduce", GIB)


def test_two_cards_of_different_boxes() -> None:
    group = network(2).group([Place(0, 3), Place(1, 6)])
    share = PHASE + HOP + MESSAGE + wire(MIB / 2 / 3) / LEFT / PORT
    assert group.seconds("all_reduce", MIB) == pytest.approx(2 * share, rel=1e-12)
    assert group.seconds("send_recv", MIB) == pytest.approx(
        PHASE + HOP + MESSAGE + wire(MIB / 3) / LEFT / PORT, rel=1e-12
    )
    assert group.links("send_recv", Place(1, 6)) == {(Place(1, 6), port) for port in (8, 22, 23)}


def test_boxes_with_different_numbers_of_cards_exchange_directly() -> None:
    group = network(2).group([Place(0, 0), Place(0, 1), Place(0, 2), Place(1, 4)])
    assert group.algorithm == "direct"
    # The lone card sends three parts by its ports out, and three come in.
    seconds = PHASE + HOP + 3 * (MESSAGE + wire(GIB / 4 / 3) / LEFT / PORT)
    assert group.seconds("all_to_all", GIB) == pytest.approx(seconds, rel=1e-12)


def test_gather_crowds_in_at_the_root() -> None:
    """Three boxes send to the root's: two messages reach each of its cards, then three cross each pair of the box."""
    group = whole(3)
    out = 2 * (wire(MIB / 3) / LEFT / PORT + MESSAGE)
    inside = 3 * (wire(MIB / 3) / PORT + MESSAGE)
    slices = 2
    seconds = 2 * PHASE + HOP + pipelined(inside, out, 3 * slices, 2 * slices)
    assert group.seconds("gather", MIB) == pytest.approx(seconds, rel=1e-12)
    assert group.seconds("scatter", MIB) == pytest.approx(seconds, rel=1e-12)
    assert group.explain("gather", MIB)[0].link == "0.0:8 in"


def test_all_to_all_is_bound_by_the_ports_out() -> None:
    """Each card puts (D-1)/D of its bytes through its three ports: Gaudi3's documented limit of 75 GB/s."""
    seconds = whole(16, box="hls3").seconds("all_to_all", GIB)
    assert 15 / 16 * GIB / seconds / 1e9 == pytest.approx(75 * 0.988 * 0.99 * LEFT**2.5, rel=0.03)


def test_a_barrier_costs_its_phases() -> None:
    empty = MESSAGE + wire(0) / PORT + 82 / PORT
    out = MESSAGE + (wire(0) + 82) / LEFT / PORT
    assert whole(2).seconds("barrier", 0) == pytest.approx(2 * PHASE + HOP + empty + out, rel=1e-12)


@pytest.mark.parametrize("pattern", fabric.PATTERNS)
@pytest.mark.parametrize("algorithm", ("auto", "direct", "ring", "halving_doubling"))
def test_every_pattern_in_every_placement(pattern: str, algorithm: str) -> None:
    made = network(3, algorithm=algorithm)
    for places in (
        [Place(0, 4)],
        [Place(0, 4), Place(0, 5)],
        [Place(2, 1), Place(0, 4)],
        [Place(0, 0), Place(0, 1), Place(1, 0)],
        [Place(box, card) for box in (2, 0) for card in (6, 1, 3)],
        [Place(box, card) for box in range(3) for card in range(8)],
    ):
        group = made.group(places)
        times = [group.seconds(pattern, nbytes) for nbytes in (0, 1, 4096, MIB, GIB)]
        assert times == sorted(times) and (times[0] > 0) == (len(places) > 1)
        phases = group.explain(pattern, GIB)
        ends = [phase.start_s + phase.seconds for phase in phases]
        assert max(ends, default=0.0) == pytest.approx(times[-1], rel=1e-12)


def test_the_root_is_the_first_place_wherever_it_stands() -> None:
    made = network(2, links=["1.5:*=0.5"])
    cards = [Place(box, card) for box in range(2) for card in range(8)]
    slow = made.group([cards[13], *cards[:13], *cards[14:]])
    assert slow.explain("scatter", GIB)[0].link.startswith("1.5:")
    assert slow.seconds("scatter", GIB) > made.group(cards).seconds("scatter", GIB)


def test_phases_of_a_hierarchical_all_reduce() -> None:
    phases = whole(2).explain("all_reduce", GIB)
    assert [phase.name for phase in phases] == [
        "reduce-scatter in the box",
        "reduce-scatter across boxes",
        "all-gather across boxes",
        "all-gather in the box",
    ]
    assert phases[0].start_s == 0 < phases[1].start_s < phases[0].seconds < phases[2].start_s < phases[3].start_s
