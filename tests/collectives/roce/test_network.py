"""The network of a job: what the environment says, places of ranks, states of links, plain data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from collectives.roce.bandwidth import algorithm_bandwidth, network_bandwidth, network_factor
from collectives.roce.network import Network
from collectives.roce.place import Place, places
from device.description import configs_dir
from device.errors import ConfigurationError
from device.spec import CardSpec, load_card

from .networks import GIB, MIB, network, whole


class TestPlaces:
    def test_ranks_fill_box_after_box(self) -> None:
        assert places([0, 7, 8, 17], {}, 8) == {0: Place(0, 0), 7: Place(0, 7), 8: Place(1, 0), 17: Place(2, 1)}

    def test_modules_are_believed_where_they_make_sense(self) -> None:
        modules = {0: 3, 1: 2, 2: 1, 3: 0}
        assert places(range(4), modules, 8) == {rank: Place(0, 3 - rank) for rank in range(4)}

    @pytest.mark.parametrize("modules", ({0: 5, 1: 5}, {0: 5, 1: None}, {0: 5}, {0: 5, 1: 8}, {0: -1, 1: 2}))
    def test_modules_that_cannot_be_are_not(self, modules: dict[int, int | None]) -> None:
        """Two machines both count from 0, or a rank has not told."""
        assert places([0, 1], modules, 8) == {0: Place(0, 0), 1: Place(0, 1)}

    def test_each_box_by_itself(self) -> None:
        assert places(range(4), {0: 1, 1: 0, 2: 1, 3: 1}, 2) == {
            0: Place(0, 1),
            1: Place(0, 0),
            2: Place(1, 0),
            3: Place(1, 1),
        }

    def test_time_is_the_same_on_one_machine_and_on_two(self) -> None:
        made = network(2, cards=4)
        one_machine = places(range(8), {rank: rank for rank in range(8)}, 4)
        two_machines = places(range(8), {rank: rank % 4 for rank in range(8)}, 4)
        assert made.group(list(one_machine.values())) is made.group(list(two_machines.values()))


class TestEnvironment:
    @pytest.fixture(autouse=True)
    def _clean(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("FABRIC", "LINKS", "ALGORITHM", "CARDS_PER_BOX"):
            monkeypatch.delenv(f"HPUCLUSTER_{name}", raising=False)

    @pytest.mark.parametrize(
        ("ranks", "fabric"), ((1, "one-box"), (8, "one-box"), (9, "leaf"), (64, "leaf"), (1024, "leaf-spine"))
    )
    def test_the_fabric_grows_with_the_ranks(self, ranks: int, fabric: str) -> None:
        made = Network.of_environment(load_card("gaudi2"), ranks)
        assert (made.fabric.name, made.box.name, made.algorithm, made.cards_per_box) == (fabric, "hls2", "auto", 8)

    def test_everything_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HPUCLUSTER_FABRIC", "leaf-spine-oversubscribed")
        monkeypatch.setenv("HPUCLUSTER_LINKS", "0:8=down, 1.0:22=0.5,")
        monkeypatch.setenv("HPUCLUSTER_ALGORITHM", "ring")
        monkeypatch.setenv("HPUCLUSTER_CARDS_PER_BOX", "2")
        made = Network.of_environment(load_card("gaudi3"), 4)
        assert made.fabric.name == "leaf-spine-oversubscribed" and made.cards_per_box == 2
        assert made.links == ("0:8=down", "1.0:22=0.5")
        assert made.group([Place(0, 0), Place(1, 0)]).algorithm == "ring"

    def test_a_fabric_may_name_the_box(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HPUCLUSTER_FABRIC", "hls1h")
        made = Network.of_environment(load_card("gaudi"), 8)
        assert (made.box.name, made.cards_per_box) == ("hls1h", 4)

    def test_a_file_of_ones_own(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        path = tmp_path / "mine.toml"
        path.write_text(
            (configs_dir() / "fabrics" / "leaf.toml").read_text().replace('name = "leaf"', 'name = "mine"', 1)
        )
        monkeypatch.setenv("HPUCLUSTER_FABRIC", str(path))
        assert Network.of_environment(load_card("gaudi2"), 16).fabric.name == "mine"

    @pytest.mark.parametrize(
        ("variable", "value", "ranks", "words"),
        (
            ("FABRIC", "torus", 8, "unknown fabric 'torus'"),
            ("FABRIC", "leaf", 80, "80 ranks, 8 in each box, need 10 boxes, and fabric leaf has 8; start fewer ranks"),
            ("FABRIC", "", 1025, "1025 ranks, 8 in each box, need 129 boxes, and fabric leaf-spine has 128"),
            ("ALGORITHM", "tree", 8, "'tree' is not an algorithm; choose one of auto, direct, hierarchical, ring, "),
            ("CARDS_PER_BOX", "9", 8, "'9' is not a number of cards of a box hls2; use 1 to 8"),
            ("CARDS_PER_BOX", "few", 8, "'few' is not a number of cards"),
            ("LINKS", "0:8", 8, "HPUCLUSTER_LINKS: '0:8' has no state; write WHERE=STATE"),
            ("LINKS", "0=down", 8, "'0=down' names no port"),
            ("LINKS", "0:8=broken", 8, "'broken' is no state; write up, down, or the share"),
            ("LINKS", "0:8=0", 8, "'0' is no state"),
            ("LINKS", "0:8=1.5", 8, "'1.5' is no state"),
            ("LINKS", "0:8=nan", 8, "'nan' is no state"),
            ("LINKS", "0:x=down", 8, "'x' is neither a number nor"),
            ("LINKS", "0:24=down", 8, "names port 24, and there are 24, counted from 0"),
            ("LINKS", "0.8:1=down", 8, "names module 8, and there are 8"),
            ("LINKS", "8:1=down", 8, "names box 1, and there are 1"),
            ("LINKS", "leaf/spine0=down", 16, "names switch 'spine0', which fabric leaf has not .there is none."),
            ("LINKS", "leaf99/*=down", 1024, r"names switch 'leaf99', .*leaf0 to leaf31"),
            ("LINKS", "/=down", 16, "names no link"),
        ),
    )
    def test_mistakes_are_named(
        self, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, ranks: int, words: str
    ) -> None:
        monkeypatch.setenv(f"HPUCLUSTER_{variable}", value)
        with pytest.raises(ConfigurationError, match=words):
            Network.of_environment(load_card("gaudi2"), ranks)


class TestLinks:
    def test_a_pair_without_a_link_is_named(self) -> None:
        made = network(links=["0:0=down", "0:1=down", "3:3=down"])
        with pytest.raises(
            ConfigurationError, match=r"cards 0\.0 and 0\.3 .*no link that is up: 0\.0:0 to 0\.3:0 and 0\.0:1 to 0\.3:1"
        ):
            made.group([Place(0, card) for card in range(8)])
        made.group([Place(0, card) for card in range(3)])  # without card 3 nobody needs it

    def test_a_card_without_a_way_out_is_named(self) -> None:
        made = network(2, links=["*.5:8=down", "13:22=down", "13:23=down"])
        with pytest.raises(ConfigurationError, match=r"cards 0\.5 and 1\.5 .*no way to each other in fabric leaf"):
            made.group([Place(box, card) for box in range(2) for card in range(8)])

    def test_a_leaf_that_is_cut_off_is_named(self) -> None:
        made = network(16, links=["leaf1/*=down"])
        with pytest.raises(ConfigurationError, match=r"cards 0\.0 and 4\.0"):
            made.group([Place(box, card) for box in range(16) for card in range(8)])
        made.group([Place(box, 0) for box in (0, 1, 2, 3, 8, 9)])

    def test_the_last_word_counts_and_the_environment_comes_last(self) -> None:
        assert whole(links=["*:*=0.5", "*:*=up"]).seconds("all_reduce", MIB) == whole().seconds("all_reduce", MIB)

    def test_a_spine_that_is_down_leaves_the_others(self) -> None:
        """Leaves send eleven twelfths up at once; cards send to other leaves 12 of 15 parts, so it hardly matters."""
        fewer, all_spines = whole(16, links=["*/spine0=down"]), whole(16)
        assert fewer.seconds("all_to_all", GIB) == pytest.approx(all_spines.seconds("all_to_all", GIB), rel=0.05)
        half = whole(16, links=["*/*=0.5"])
        assert half.seconds("all_to_all", GIB) > 1.5 * all_spines.seconds("all_to_all", GIB)
        assert half.explain("all_to_all", GIB)[1].link == "leaf0/spine0 up"


class TestGroups:
    def test_the_same_places_are_the_same_group(self) -> None:
        made = network()
        assert made.group([Place(0, 1), Place(0, 2)]) is made.group([Place(0, 1), Place(0, 2)])

    @pytest.mark.parametrize(
        ("chosen", "words"),
        (
            ([Place(0, 1), Place(0, 1)], r"2 ranks of a group stand at card 0\.1"),
            ([Place(0, 1), Place(1, 1)], "a card of box 1 is wanted, and fabric one-box has 1"),
            ([Place(0, 8)], "module 8 of box 0 is wanted, and a box hls2 has 8 cards"),
        ),
    )
    def test_cards_that_are_not_there(self, chosen: list[Place], words: str) -> None:
        with pytest.raises(ConfigurationError, match=words):
            network().group(chosen)


class TestPlainData:
    def test_there_and_back(self) -> None:
        made = network(2, links=["0:8=0.5", "3:0=down"], algorithm="hierarchical", cards=4)
        again = Network.from_plain(json.loads(json.dumps(made.to_plain())))
        cards = [Place(box, card) for box in range(2) for card in range(4)]
        assert again == made
        assert again.group(cards).seconds("all_reduce", GIB) == made.group(cards).seconds("all_reduce", GIB)

    @pytest.mark.parametrize(
        ("change", "words"),
        (
            ({"box": 3}, "its box, fabric or cards_per_box is of another type"),
            ({"cards_per_box": "8"}, "of another type"),
            ({"links": [3]}, "its links or algorithm are no text"),
            ({"algorithm": "tree"}, "'tree' is not an algorithm"),
            ({"cards_per_box": 9}, "9 cards in each box are wanted"),
            ({"fabric": {}}, "fabric: key 'name' is missing"),
        ),
    )
    def test_what_cannot_be_read(self, change: dict[str, object], words: str) -> None:
        with pytest.raises(ConfigurationError, match=words):
            Network.from_plain({**network().to_plain(), **change})
        with pytest.raises(ConfigurationError, match="'fabric'"):
            Network.from_plain({"box": {}})

    def test_on_another_card(self) -> None:
        made = network(16, links=["0:8=down", "leaf0/*=0.5"], algorithm="hierarchical")
        other = made.on(load_card("gaudi3"))
        assert (other.box.name, other.fabric.name, other.links) == ("hls3", "leaf-spine", ("leaf0/*=0.5",))
        assert other.algorithm == "hierarchical" and other.cards_per_box == 8
        assert network().on(load_card("gaudi2")) == network()
        with pytest.raises(ConfigurationError, match="8 cards in each box are wanted"):
            network().on(_card_in("hls1h"))
        assert network(cards=4).on(_card_in("hls1h")).fabric.name == "leaf"


def _card_in(box: str) -> CardSpec:
    return replace(load_card("gaudi"), box=box)


def test_bandwidths_as_hccl_demo_reports_them() -> None:
    factors = {
        "all_reduce": 1.75,
        "reduce_scatter": 0.875,
        "all_to_all": 0.875,
        "all_gather": 7,
        "broadcast": 1,
        "reduce": 1,
        "send_recv": 1,
    }
    assert {pattern: network_factor(pattern, 8) for pattern in factors} == factors
    assert algorithm_bandwidth("all_reduce", 800, 2.0, 8) == 400
    assert algorithm_bandwidth("all_gather", 800, 2.0, 8) == 50  # counted by its output, told by its input
    assert network_bandwidth("all_gather", 800, 2.0, 8) == 350
    assert algorithm_bandwidth("barrier", 0, 0.0, 1) == 0
    for bad in (("gossip", 8), ("all_reduce", 0)):
        with pytest.raises(ValueError, match=r"unknown collective|at least one rank"):
            network_factor(*bad)
