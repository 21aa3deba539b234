"""More work never takes less time: more bytes, slower links, fewer ports. And who stands where in a group's order, or
which boxes it uses, makes no difference.
"""

from __future__ import annotations

import pytest

from collectives.roce import fabric
from collectives.roce.group import Group
from collectives.roce.place import Place

from .networks import GIB, KIB, MIB, network

ALGORITHMS = ("auto", "direct", "ring", "halving_doubling")
PLACEMENTS = ((1, (2, 5)), (1, tuple(range(8))), (3, (1, 4, 6)), (10, (1, 4)))
EDGES = (8 * KIB, 256 * KIB, 512 * KIB, 3 * MIB, 8 * MIB, 64 * MIB, GIB)
SIZES = sorted({0, 100, *EDGES, *(size + 1 for size in EDGES)})
# Of the others it depends on where the root stands, or each rank's neighbour.
UNROOTED = (fabric.ALL_REDUCE, fabric.REDUCE_SCATTER, fabric.ALL_GATHER, fabric.ALL_TO_ALL, fabric.BARRIER)

Placement = tuple[int, tuple[int, ...]]


def cards(placement: Placement) -> list[Place]:
    boxes, modules = placement
    return [Place(box, module) for box in range(boxes) for module in modules]


def group(placement: Placement, algorithm: str, *links: str) -> Group:
    return network(placement[0], links=links, algorithm=algorithm).group(cards(placement))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("placement", PLACEMENTS)
class TestMonotone:
    def test_in_bytes(self, placement: Placement, algorithm: str) -> None:
        """But for a broadcast of 256 KB, above which the library takes its faster algorithm."""
        model = group(placement, algorithm)
        for pattern in fabric.PATTERNS:
            times = [model.seconds(pattern, size) for size in SIZES]
            if pattern == fabric.BROADCAST and algorithm != "ring":
                small = SIZES.index(256 * KIB) + 1
                assert times[:small] == sorted(times[:small]) and times[small:] == sorted(times[small:])
            else:
                assert times == sorted(times), pattern

    @pytest.mark.parametrize("link", ("*:*", "0.1:*", "*:22", "0.5:6"))
    def test_in_the_rate_of_a_link(self, placement: Placement, algorithm: str, link: str) -> None:
        models = [group(placement, algorithm, f"{link}={rate}") for rate in (1, 0.9, 0.5, 0.1)]
        for pattern in fabric.PATTERNS:
            for size in (0, 100, 256 * KIB, 8 * MIB):
                times = [model.seconds(pattern, size) for model in models]
                assert times == sorted(times), (pattern, size)

    @pytest.mark.parametrize("port", ("0.1:22", "*:8", "0.5:6", "0.2:16"))
    def test_in_the_number_of_ports(self, placement: Placement, algorithm: str, port: str) -> None:
        whole, fewer = group(placement, algorithm), group(placement, algorithm, f"{port}=down")
        for pattern in fabric.PATTERNS:
            for size in (0, 256 * KIB, 8 * MIB):
                assert fewer.seconds(pattern, size) >= whole.seconds(pattern, size), (pattern, size)

    def test_the_order_of_ranks_makes_no_difference(self, placement: Placement, algorithm: str) -> None:
        ordered, made = group(placement, algorithm), network(placement[0], algorithm=algorithm)
        reversed_, rotated = cards(placement)[::-1], [*cards(placement)[3:], *cards(placement)[:3]]
        for pattern in UNROOTED:
            for places in (reversed_, rotated):
                assert made.group(places).seconds(pattern, MIB) == pytest.approx(ordered.seconds(pattern, MIB))


@pytest.mark.parametrize("links", ((), ("leaf0/spine1=0.5",), ("*/spine3=down",), ("leaf2/*=0.1",)))
def test_a_slower_switch_makes_nothing_faster(links: tuple[str, ...]) -> None:
    whole, slower = group(PLACEMENTS[-1], "auto"), group(PLACEMENTS[-1], "auto", *links)
    for pattern in fabric.PATTERNS:
        assert slower.seconds(pattern, 8 * MIB) >= whole.seconds(pattern, 8 * MIB)


def test_a_rest_of_a_slice_is_not_a_slice() -> None:
    """2 MiB of ring broadcast and a byte: the byte goes behind four slices, and the pipeline fills with a whole one."""
    model = group((1, tuple(range(8))), "ring")
    slices, rest = 4, 1
    whole, longer = model.seconds("broadcast", 2 * MIB), model.seconds("broadcast", 2 * MIB + rest)
    one = whole / (6 + slices)
    assert whole < longer < whole + one / 2
