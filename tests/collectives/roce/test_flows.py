"""Transfers that share links, and messages between cards."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.roce.flows import Transfer, ends, fair_rates
from collectives.roce.network import Message
from collectives.roce.place import Place
from collectives.roce.traffic import Traffic

from .networks import GIB, HOP, LEFT, MESSAGE, MIB, PHASE, PORT, network, on_ideal_ports, wire

LINKS = "abcd"
routes = st.frozensets(st.sampled_from(LINKS), min_size=1)
capacities = st.fixed_dictionaries({link: st.integers(1, 100).map(float) for link in LINKS})
transfers = st.lists(
    st.builds(Transfer, st.integers(0, 20).map(float), st.integers(0, 1000).map(float), routes), max_size=8
)


def test_two_on_one_link_take_twice_as_long() -> None:
    two = [Transfer(0, 100, frozenset("a")), Transfer(0, 100, frozenset("a"))]
    assert ends(two[:1], {"a": 10.0}) == [10]
    assert ends(two, {"a": 10.0}) == [20, 20]


def test_one_that_comes_later_shares_from_then_on() -> None:
    late = [Transfer(0, 100, frozenset("a")), Transfer(5, 100, frozenset("a"))]
    assert ends(late, {"a": 10.0}) == [15, 20]  # 50 bytes alone, 50 and 50 together, the last 50 alone


def test_what_another_link_holds_back_leaves_its_share() -> None:
    rates = fair_rates([frozenset("ab"), frozenset("a"), frozenset("a")], {"a": 12.0, "b": 2.0})
    assert rates == [2, 5, 5]


def test_nothing_to_send_is_over_at_once() -> None:
    assert ends([Transfer(3, 0, frozenset("a")), Transfer(4, 9, frozenset())], {"a": 1.0}) == [3, 4]


def test_what_cannot_be() -> None:
    with pytest.raises(ValueError, match=r"link 'a' carries nothing \(None"):
        ends([Transfer(0, 1, frozenset("a"))], {})
    with pytest.raises(ValueError, match=r"-1 bytes"):
        ends([Transfer(0, -1, frozenset("a"))], {"a": 1.0})


@settings(deadline=None)
@given(st.lists(routes, max_size=8), capacities)
def test_rates_are_max_min_fair(chosen: list[frozenset[str]], rates_of: dict[str, float]) -> None:
    rates = fair_rates(chosen, rates_of)
    carried = {link: sum(rate for rate, route in zip(rates, chosen, strict=True) if link in route) for link in LINKS}
    assert all(carried[link] <= rates_of[link] * (1 + 1e-9) for link in LINKS)
    for rate, route in zip(rates, chosen, strict=True):
        # Some link on the way is full, and nobody there has more: nothing can be given without taking from the poorer.
        assert any(
            carried[link] >= rates_of[link] * (1 - 1e-9)
            and rate >= max(other for other, way in zip(rates, chosen, strict=True) if link in way) * (1 - 1e-9)
            for link in route
        )


@settings(deadline=None)
@given(transfers, capacities, st.integers(0, 1000))
def test_the_order_of_transfers_is_of_no_matter(chosen: list[Transfer], rates_of: dict[str, float], seed: int) -> None:
    order = list(range(len(chosen)))
    random.Random(seed).shuffle(order)
    shuffled = ends([chosen[index] for index in order], rates_of)
    straight = ends(chosen, rates_of)
    assert shuffled == pytest.approx([straight[index] for index in order], rel=1e-9)


@settings(deadline=None)
@given(transfers, capacities)
def test_nothing_is_lost_and_no_link_carries_more_than_it_can(
    chosen: list[Transfer], rates_of: dict[str, float]
) -> None:
    finished = ends(chosen, rates_of)
    for end, transfer in zip(finished, chosen, strict=True):
        alone = transfer.nbytes / min(rates_of[link] for link in transfer.links)
        assert end >= transfer.start_s + alone * (1 - 1e-9)
    for link, rate in rates_of.items():
        users = [(transfer, end) for transfer, end in zip(chosen, finished, strict=True) if link in transfer.links]
        for begin in {transfer.start_s for transfer, _ in users}:
            # All that began since then went over the link by the time the last of it ended.
            since = [(transfer, end) for transfer, end in users if transfer.start_s >= begin]
            last = max(end for _, end in since)
            assert sum(transfer.nbytes for transfer, _ in since) <= rate * (last - begin) * (1 + 1e-9) + 1e-9
    if chosen:
        assert max(finished) <= max(transfer.start_s for transfer in chosen) + sum(
            transfer.nbytes / min(rates_of[link] for link in transfer.links) for transfer in chosen
        ) * (1 + 1e-9)


# -- between cards ----------------------------------------------------------------------------------------------------


def test_a_message_alone_takes_what_its_group_says() -> None:
    made = network(8, fabric="leaf-spine")
    for target in (Place(0, 3), Place(1, 3), Place(6, 0)):
        group = made.group([Place(0, 1), target])
        message = Message(Place(0, 1), target, 10 * MIB, 2.0)
        assert made.message_ends([message]) == pytest.approx([2.0 + group.seconds("send_recv", 10 * MIB)], rel=1e-12)
    assert made.message_ends([Message(Place(0, 1), Place(0, 1), MIB, 2.0)]) == [2.0]


def test_two_messages_on_one_pair_take_twice_as_long_and_other_pairs_do_not() -> None:
    messages = [Message(Place(0, 0), Place(0, 1), GIB)] * 2 + [Message(Place(0, 0), Place(0, 2), GIB)]
    fixed, alone = PHASE + MESSAGE, wire(GIB / 3) / PORT
    assert network().message_ends(messages) == pytest.approx([fixed + 2 * alone] * 2 + [fixed + alone], rel=1e-12)


def test_many_that_send_to_one_crowd_in() -> None:
    crowd = [Message(Place(box, 0), Place(0, 0), GIB) for box in (1, 2, 3)]
    fixed, alone = PHASE + MESSAGE + HOP, wire(GIB / 3) / LEFT / PORT
    assert network(4).message_ends(crowd) == pytest.approx([fixed + 3 * alone] * 3, rel=1e-12)
    assert network(4).message_ends(crowd[:1]) == pytest.approx([fixed + alone], rel=1e-12)


def test_an_oversubscribed_leaf_is_shared() -> None:
    """32 cards send through a leaf that takes half of them up at once."""
    made = network(8, fabric="leaf-spine-oversubscribed")
    messages = [Message(Place(box, card), Place(box + 4, card), GIB) for box in range(4) for card in range(8)]
    alone = wire(GIB / 3) / LEFT**3 / PORT
    together = made.message_ends(messages)
    assert together == pytest.approx([PHASE + MESSAGE + 3 * HOP + 2 * alone] * 32, rel=1e-9)
    half = made.message_ends(messages[::2])
    assert half == pytest.approx([PHASE + MESSAGE + 3 * HOP + alone] * 16, rel=1e-9)


pairs_of_cards = st.lists(
    st.sampled_from(list(permutations([Place(box, card) for box in range(3) for card in (0, 1, 4)], 2))),
    min_size=1,
    max_size=10,
)


@settings(deadline=None)
@given(pairs_of_cards)
def test_a_phase_takes_as_long_as_its_busiest_link(pairs: list[tuple[Place, Place]]) -> None:
    """Equal messages that begin together end with those of the busiest link; so a phase needs no simulation."""
    made = on_ideal_ports(network(3))
    for is_inside in (True, False):
        chosen = [pair for pair in pairs if (pair[0].box == pair[1].box) == is_inside]
        if chosen:
            traffic = Traffic(made._wiring)
            for source, target in chosen:
                traffic.send(source, target, 1.0)
            simulated = max(made.message_ends([Message(*pair, GIB) for pair in chosen]))
            fixed = PHASE + (0 if is_inside else HOP)
            assert traffic.busiest(GIB)[0] + fixed == pytest.approx(simulated, rel=1e-9)
