"""Box files: the four that come with the project, a user's own, and everything that can be wrong in one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from collectives.roce.box import box_of, load_box
from device.description import configs_dir
from device.errors import ConfigurationError
from device.spec import CARDS, load_card

BOXES = {"hls1": (8, 1, 3), "hls1h": (4, 0, 10), "hls2": (8, 3, 3), "hls3": (8, 3, 3)}
HLS2 = (configs_dir() / "boxes" / "hls2.toml").read_text()


@pytest.mark.parametrize("name", BOXES)
class TestShippedBoxes:
    def test_every_pair_has_its_cables_and_every_port_a_purpose(self, name: str) -> None:
        cards, per_pair, out = BOXES[name]
        box = load_box(name)
        ends = box.pair_ports
        assert (box.name, box.cards, box.ports_per_pair) == (name, cards, per_pair)
        assert all(len(ports) == per_pair for ports in ends.values())
        assert len(ends) == (cards * (cards - 1) if per_pair else 0)
        assert all(len(ports) == out for ports in box.scale_out)
        for (one, other), ports in ends.items():
            assert ends[other, one] == tuple(sorted((far, near) for near, far in ports))
        for card in range(cards):
            inside = [near for (one, _), ports in ends.items() if one == card for near, _ in ports]
            assert sorted((*inside, *box.scale_out[card])) == list(range(box.ports_per_card))

    def test_it_fits_its_card(self, name: str) -> None:
        box = load_box(name)
        card = load_card(box.card)
        assert (
            card.nic.ports == box.ports_per_card and card.nic.line_rate_bytes_per_s == box.ports.line_rate_bytes_per_s
        )
        assert card.box == name or name == "hls1h"

    def test_each_figure_has_its_source(self, name: str) -> None:
        for line in (configs_dir() / "boxes" / f"{name}.toml").read_text().splitlines():
            if re.match(r"\w+ = ", line) and not line.startswith(("name =", "card =")):
                assert re.search(r"# \S+ \S+", line), line

    def test_it_goes_through_plain_data(self, name: str) -> None:
        box = load_box(name)
        assert box_of(box.to_plain(), "plain") == box


def test_every_card_has_its_box() -> None:
    assert {load_card(name).box for name in CARDS} == set(BOXES) - {"hls1h"}


def test_ports_that_leave_an_hls2() -> None:
    assert load_box("hls2").scale_out == ((8, 22, 23),) * 8


def test_a_file_of_ones_own_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HLS2)
    assert load_box(str(path)) == load_box("hls2")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    (
        ("cards = 8 ", "cards = 0 ", "cards must be more than 0; got 0"),
        ("cards = 8 ", "cards = -8 ", "cards must not be negative; got -8"),
        ("cards = 8 ", "cards = 'eight' ", "cards must be int; got 'eight'"),
        ("cards = 8 ", "cards = 7 ", "map has 8 rows for 7 cards"),
        ("mtu_bytes = 8192", "", "key 'mtu_bytes' is missing"),
        ("mtu_bytes = 8192", "mtu_bytes = 8192\nmtu_kb = 8", "unknown key 'mtu_kb'.*did you mean mtu_bytes"),
        ("efficiency = 0.995", "efficiency = 99.5", "efficiency must be at most 1; got 99.5"),
        ("line_rate_bytes_per_s = 12.5e9", "line_rate_bytes_per_s = 100", "more than 1000000 bytes per second"),
        ('reduces_in = "sram"', 'reduces_in = "tpc"', "reduces_in must be one of sram, hbm; got 'tpc'"),
        ("[roce]", "roce = 1\n[rocky]", "must be a table|unknown key"),
        ("[hccl]", "[hccl", "not valid TOML"),
        # The map. Port 0 of card 0 and port 0 of card 3 are a cable.
        ('[ "3:0", ', '[ "3.0", ', r"port 0 of card 0 is '3.0'; write 'card:port'"),
        ('[ "3:0", ', '[ "9:0", ', "port 0 of card 0 is '9:0', but there is no card 9; the box has cards 0 to 7"),
        ('[ "3:0", ', '[ "0:0", ', "a cable from the card to itself"),
        ('[ "3:0", ', '[ "3:24", ', "port 0 of card 0 is '3:24', but cards have ports 0 to 23 only"),
        ('[ "3:0", ', '[ "3:1", ', "port 1 of card 3 is used already, by port 0 of card 0"),
        (
            '[ "3:0", ',
            '[ "-", ',
            "port 0 of card 3 leads to port 0 of card 0, but that one says '-'; it must say '3:0'",
        ),
        ('[ "3:0", ', "[ ", "card 1 has 24 ports and card 0 has 23; give as many"),
        ('[ "3:0", ', '[ "out", ', "port 0 of card 3 leads to port 0 of card 0, but that one says 'out'"),
    ),
)
def test_mistakes_are_named(tmp_path: Path, before: str, after: str, words: str) -> None:
    assert before in HLS2
    path = tmp_path / "mine.toml"
    path.write_text(HLS2.replace(before, after, 1))
    with pytest.raises(ConfigurationError, match=words):
        load_box(str(path))


@pytest.mark.parametrize(
    ("rows", "words"),
    (
        ([["1:0", "out"], ["0:0", "-"]], "card 1 has 0 ports that leave the box and card 0 has 1"),
        ([["1:0", "-"], ["0:0", "-"], ["-", "-"]], "cards 0 and 2 have no link; give each pair a port, or none at all"),
        ([["-"], ["-"]], "no port leads anywhere"),
        ([[], []], "card 0 has no ports"),
    ),
)
def test_maps_that_cannot_be(rows: list[list[str]], words: str) -> None:
    table = load_box("hls2").to_plain()
    table["cards"], table["ports"]["map"] = len(rows), rows
    with pytest.raises(ConfigurationError, match=words):
        box_of(table, "mine")


def test_unknown_boxes_are_named() -> None:
    with pytest.raises(ConfigurationError, match="unknown box 'hls9'; choose one of hls1, hls1h, hls2, hls3"):
        load_box("hls9")
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml cannot be read"):
        load_box("/nowhere.toml")
