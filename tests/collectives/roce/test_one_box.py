"""One box: published bandwidths, and each pattern against its formula."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.roce import fabric
from collectives.roce.bandwidth import algorithm_bandwidth, network_bandwidth
from collectives.roce.place import Place

from .networks import GIB, MESSAGE, MIB, PHASE, PORT, network, whole, wire


@pytest.mark.parametrize(
    ("box", "nbytes", "published", "tolerance"),
    (("hls2", 32 * MIB, 258.21, 0.01), ("hls2", GIB, 258.20, 0.01), ("hls3", 256 * MIB, 512.96, 0.015)),
)
def test_published_network_bandwidth(box: str, nbytes: int, published: float, tolerance: float) -> None:
    seconds = whole(box=box).seconds("all_reduce", nbytes)
    assert network_bandwidth("all_reduce", nbytes, seconds, 8) / 1e9 == pytest.approx(published, rel=tolerance)


def test_published_algorithm_bandwidth_and_two_cards_with_a_quarter_of_eight() -> None:
    eight, two = whole(), network().group([Place(0, 0), Place(0, 5)])
    algorithm = [
        algorithm_bandwidth("all_reduce", 32 * MIB, group.seconds("all_reduce", 32 * MIB), len(group.places)) / 1e9
        for group in (eight, two)
    ]
    assert algorithm[0] == pytest.approx(147.55, rel=0.01)
    assert algorithm[1] == pytest.approx(algorithm[0] / 4, rel=0.03)


def test_published_bandwidth_of_a_box_whose_cards_meet_at_a_switch() -> None:
    seconds = whole(box="hls1h", fabric="hls1h").seconds("all_reduce", 512 * MIB)
    assert 512 * MIB / seconds / 1e9 == pytest.approx(69.21, rel=0.005)


def test_formulae() -> None:
    group, nbytes = network().group([Place(0, module) for module in (0, 2, 3, 7)]), 8 * MIB
    share = PHASE + MESSAGE + wire(nbytes / 4 / 3) / PORT
    all_of_it = PHASE + MESSAGE + wire(nbytes / 3) / PORT
    for pattern, seconds in (
        ("reduce_scatter", share),
        ("all_gather", share),
        ("all_to_all", share),
        ("all_reduce", 2 * share),
        ("reduce", 2 * share),
        ("broadcast", 2 * share),
        ("gather", all_of_it),
        ("scatter", all_of_it),
        ("send_recv", all_of_it),
        ("barrier", PHASE + MESSAGE + wire(0) / PORT + 82 / PORT),  # an empty message is a packet all the same
    ):
        assert group.seconds(pattern, 0 if pattern == "barrier" else nbytes) == pytest.approx(seconds, rel=1e-12), (
            pattern
        )
    assert group.seconds("broadcast", 3000) == pytest.approx(PHASE + MESSAGE + wire(1000) / PORT, rel=1e-12)


def test_a_port_that_is_down_slows_its_pair_and_with_it_everyone() -> None:
    nbytes = 64 * MIB
    slow = 2 * (PHASE + MESSAGE + wire(nbytes / 8 / 2) / PORT)  # two ports of three carry the pair's eighth
    for end in ("0:0=down", "0.3:0=down", "3:0=down"):  # port 0 of card 0 and port 0 of card 3 are one cable
        assert whole(links=[end]).seconds("all_reduce", nbytes) == pytest.approx(slow, rel=1e-12)
    assert whole(links=["0:8=down"]).seconds("all_reduce", nbytes) == whole().seconds("all_reduce", nbytes)
    others = network(links=["0:0=down"]).group([Place(0, module) for module in range(1, 8)])
    untouched = 2 * (PHASE + MESSAGE + wire(nbytes / 7 / 3) / PORT)
    assert others.seconds("all_reduce", nbytes) == pytest.approx(untouched, rel=1e-12)


def test_a_port_at_half_its_rate_holds_back_its_neighbours() -> None:
    nbytes = 64 * MIB
    slow = 2 * (PHASE + MESSAGE + wire(nbytes / 8 / 3) / (PORT / 2))
    assert whole(links=["0:0=0.5"]).seconds("all_reduce", nbytes) == pytest.approx(slow, rel=1e-12)
    phase = whole(links=["0:0=0.5"]).explain("all_reduce", nbytes)[0]
    assert (phase.link, phase.rate_bytes_per_s) == ("0.0:0 out", PORT / 2)
    assert phase.wire_bytes == pytest.approx(wire(nbytes / 24), rel=1e-12)


@settings(deadline=None)
@given(
    box=st.sampled_from(("hls1", "hls2", "hls3")),
    cards=st.integers(1, 8),
    pattern=st.sampled_from(fabric.PATTERNS),
    data=st.data(),
)
def test_more_bytes_never_take_less_time(box: str, cards: int, pattern: str, data: st.DataObject) -> None:
    group = whole(box=box, cards=cards)
    small = data.draw(st.integers(0, 1 << 34))
    large = data.draw(st.integers(small, 1 << 34))
    if pattern == "broadcast" and small <= 262144 < large:
        return  # the algorithm changes there
    assert 0 <= group.seconds(pattern, small) <= group.seconds(pattern, large)
    assert cards > 1 or (group.seconds(pattern, large), group.links(pattern)) == (0, frozenset())


def test_memory_that_a_collective_moves() -> None:
    nbytes = 80 * MIB
    for box, moved in (
        ("hls2", 7 / 8 + 2 / 8),  # sent from memory; own part read, result written: reduced in SRAM
        ("hls3", 7 / 8 + 2 * 7 / 8),  # sent from memory; read and written for each part that comes in: reduced in HBM
    ):
        group = whole(box=box)
        seconds = group.seconds("reduce_scatter", nbytes)
        assert group.hbm_bytes_per_s("reduce_scatter", nbytes) == pytest.approx(moved * nbytes / seconds, rel=1e-12)
        assert group.hbm_bytes_per_s("all_gather", nbytes) == pytest.approx(2 * 7 / 8 * nbytes / seconds, rel=1e-12)
    assert network().group([Place(0, 0)]).hbm_bytes_per_s("all_reduce", nbytes) == 0


def test_ports_in_use() -> None:
    group = network().group([Place(0, 0), Place(0, 3)])
    assert group.links("all_reduce") == {(Place(0, card), port) for card in (0, 3) for port in (0, 1, 3)}
    assert whole().links("all_gather", Place(0, 5)) == {
        (Place(0, 5), port) for port in range(24) if port not in (8, 22, 23)
    }


def test_shared_ports_carry_half() -> None:
    group, nbytes = whole(), 8 * MIB
    shared = 2 * (PHASE + 2 * (MESSAGE + wire(nbytes / 24) / PORT))
    assert group.shared_seconds("all_reduce", nbytes, 1) == pytest.approx(shared, rel=1e-12)
    assert group.shared_seconds("all_reduce", nbytes, 0) == group.seconds("all_reduce", nbytes)
    with pytest.raises(ValueError, match="-1 others"):
        group.shared_seconds("all_reduce", nbytes, -1)


def test_what_the_model_refuses() -> None:
    with pytest.raises(ValueError, match="unknown collective pattern 'gossip'"):
        whole().seconds("gossip", 1)
    with pytest.raises(ValueError, match="-1 bytes"):
        whole().seconds("all_reduce", -1)
