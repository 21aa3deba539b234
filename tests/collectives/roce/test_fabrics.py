"""Fabric files: those that come with the project, a user's own, and everything that can be wrong in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectives.roce.box import load_box
from collectives.roce.topology import Fabric, FabricSpec, fabric_of, load_fabric
from device.description import configs_dir
from device.errors import ConfigurationError

LEAF_SPINE = (configs_dir() / "fabrics" / "leaf-spine.toml").read_text()


@pytest.mark.parametrize(
    ("name", "box", "leaves", "ports"),
    (
        ("one-box", "hls2", 0, 0),
        ("leaf", "hls3", 1, 8 * 24),
        ("leaf-spine", "hls1", 32, 128 * 24),
        ("leaf-spine-oversubscribed", "hls2", 32, 128 * 24),
        ("hls1h", "hls1h", 16, 48 * 40),
    ),
)
def test_shipped_fabrics(name: str, box: str, leaves: int, ports: int) -> None:
    fabric = Fabric(load_fabric(name), load_box(box))
    assert fabric.spec.name == name and len(fabric.leaves) == leaves and len(fabric.leaf_of) == ports
    assert fabric_of(fabric.spec.to_plain(), "plain") == fabric.spec
    for line in (configs_dir() / "fabrics" / f"{name}.toml").read_text().splitlines():
        if line.startswith("hop_"):
            assert "assumed" in line


def test_links_to_the_spines_carry_what_comes_from_the_boxes() -> None:
    """4 boxes x 8 cards x 3 ports at a leaf, over 12 spines; half of it where two bytes share one's room."""
    for name, share in (("leaf-spine", 8), ("leaf-spine-oversubscribed", 4)):
        assert Fabric(load_fabric(name), load_box("hls2")).uplink_share(0) == share


def test_leaves_for_boxes_cards_and_ports(tmp_path: Path) -> None:
    fabric = Fabric(
        own(
            tmp_path,
            ('boxes = "0-127/4"', 'boxes = "0-1,3"'),
            ('cards = "*"', 'cards = "0-3"'),
            ('scale_out = "*"', 'scale_out = "0,2"'),
            ("boxes = 128", "boxes = 4"),
            ("[[leaves]]", '[[leaves]]\nname = "rest"\nboxes = "*"\ncards = "4-7"\nscale_out = "*"\n\n[[leaves]]'),
        ),
        load_box("hls2"),
    )
    assert fabric.leaves == ("rest", "leaf")
    assert [fabric.leaf_of.get(end) for end in ((0, 0, 0), (0, 0, 1), (2, 0, 0), (2, 7, 1))] == [1, None, None, 0]


def own(folder: Path, *changes: tuple[str, str]) -> FabricSpec:
    text = LEAF_SPINE
    for before, after in changes:
        assert before in text
        text = text.replace(before, after, 1)
    path = folder / "mine.toml"
    path.write_text(text)
    return load_fabric(str(path))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    (
        ("boxes = 128", "boxes = 0", "boxes must be more than 0; got 0"),
        ("spines = 12", "", "key 'spines' is missing"),
        ("oversubscription = 1.0", "oversubscription = 0", "oversubscription must be more than 0; got 0"),
        ("oversubscription = 1.0", "oversubscribed = 2", "unknown key 'oversubscribed'.*did you mean oversubscription"),
        ("hop_efficiency = 0.98", "hop_efficiency = 98", "hop_efficiency must be at most 1; got 98"),
        ("links = []", "links = 'none'", "links must be a list; got 'none'"),
        ("[[leaves]]", "[leaves]", r"\[\[leaves\]\] must be tables"),
        ('cards = "*"', "cards = 3", r"\[\[leaves\]\] number 1: cards must be str; got 3"),
        ('cards = "*"', 'cards = "0-8"', "'0-8': there is no card 8; there are 8, counted from 0"),
        ('cards = "*"', 'cards = "three"', "'three' is no number or range; write such as 0-3,7"),
        ('scale_out = "*"', 'scale_out = "0-3"', "there is no scale-out port 3; there are 3, counted from 0"),
        ('scale_out = "*"', 'scale_out = "1,1"', "names one twice"),
        ('scale_out = "*"', 'scale_out = "2-1"', "names nothing"),
        ('boxes = "0-127/4"', 'boxes = "0-128/4"', "'0-128': there is no box 128; there are 128, counted from 0"),
        ('boxes = "0-127/4"', 'boxes = "0-127/0"', "'0' is no number of boxes"),
        ('boxes = "0-127/4"', 'boxes = "0-126/4"', "boxes 0 and 127 are not connected: no leaf takes ports of box 127"),
        ("spines = 12", "spines = 0", "boxes 0 and 4 are not connected: .*give them a leaf, or spines"),
        (
            "[[leaves]]",
            '[[leaves]]\nname = "two"\nboxes = "6"\ncards = "1"\nscale_out = "1"\n[[leaves]]',
            "port 22 of card 6.1 is used twice, by leaf two and by leaf leaf1",
        ),
        ('name = "leaf" ', 'name = "a/b" ', "name 'a/b0' is taken or has a sign in it"),
    ),
)
def test_mistakes_are_named(tmp_path: Path, before: str, after: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Fabric(own(tmp_path, (before, after)), load_box("hls2"))


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "fabric.md").read_text()
    path = tmp_path / "two-racks.toml"
    path.write_text(text.partition("```toml")[2].partition("```")[0])
    fabric = Fabric(load_fabric(str(path)), load_box("hls2"))
    assert fabric.leaves == ("leaf0", "leaf1") and len(fabric.spines) == 4
    assert fabric.uplink_share(0) == 8 * 8 * 3 / 2 / 4


def test_boxes_without_cables_inside_need_a_switch() -> None:
    with pytest.raises(ConfigurationError, match="the cards of box 0 are not connected: a hls1h has no cables inside"):
        Fabric(load_fabric("one-box"), load_box("hls1h"))


def test_unknown_fabrics_are_named() -> None:
    with pytest.raises(ConfigurationError, match="unknown fabric 'torus'; choose one of hls1h, leaf, leaf-spine, "):
        load_fabric("torus")
    with pytest.raises(ConfigurationError, match=r"fabric file /nowhere\.toml cannot be read"):
        load_fabric("/nowhere.toml")
