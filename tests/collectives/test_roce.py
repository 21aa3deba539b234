"""The model of one box against published figures and its own formulae."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectives.roce import fabric
from collectives.roce.box import load_box
from collectives.roce.direct_mesh import DirectMesh
from device.errors import ConfigurationError
from device.spec import CARDS, configs_dir, load_card

MIB = 1024 * 1024
BOXES = ("hls1", "hls2", "hls3")


def network_bandwidth(box: str, cards: int, nbytes: int) -> float:
    """GB/s as hccl_demo reports it for all_reduce: algorithm bandwidth x 2 (n - 1) / n."""
    seconds = DirectMesh(load_box(box), cards).seconds("all_reduce", nbytes)
    return nbytes / seconds * 2 * (cards - 1) / cards / 1e9


@pytest.mark.parametrize(
    ("box", "nbytes", "published", "tolerance"),
    (("hls2", 32 * MIB, 258.21, 0.01), ("hls2", 1024 * MIB, 258.20, 0.01), ("hls3", 256 * MIB, 512.96, 0.015)),
)
def test_published_all_reduce_bandwidth(box: str, nbytes: int, published: float, tolerance: float) -> None:
    assert network_bandwidth(box, 8, nbytes) == pytest.approx(published, rel=tolerance)


def test_published_algorithm_bandwidth_and_two_cards_with_a_quarter_of_eight() -> None:
    mesh = {cards: DirectMesh(load_box("hls2"), cards) for cards in (2, 8)}
    algorithm = {cards: 32 * MIB / mesh[cards].seconds("all_reduce", 32 * MIB) / 1e9 for cards in mesh}
    assert algorithm[8] == pytest.approx(147.55, rel=0.01)
    assert algorithm[2] == pytest.approx(algorithm[8] / 4, rel=0.03)


def test_formulae() -> None:
    box = load_box("hls2")
    rate = 3 * 12.5e9 * box.roce.efficiency
    latency = box.roce.phase_latency_s
    mesh, nbytes = DirectMesh(box, 4), 8 * MIB
    assert box.pair_rate == rate and box.scale_out_rate == rate
    share, whole = latency + nbytes / 4 / rate, latency + nbytes / rate
    for pattern, seconds in (
        ("reduce_scatter", share),
        ("all_gather", share),
        ("all_to_all", share),
        ("all_reduce", 2 * share),
        ("reduce", 2 * share),
        ("broadcast", 2 * share),
        ("gather", whole),
        ("scatter", whole),
        ("send_recv", whole),
        ("barrier", latency),
    ):
        assert mesh.seconds(pattern, nbytes) == seconds, pattern
    assert mesh.seconds("broadcast", 1000) == latency + 1000 / rate


@given(box=st.sampled_from(BOXES), cards=st.integers(1, 8), pattern=st.sampled_from(fabric.PATTERNS), data=st.data())
def test_more_bytes_never_take_less_time(box: str, cards: int, pattern: str, data: st.DataObject) -> None:
    mesh = DirectMesh(load_box(box), cards)
    small = data.draw(st.integers(0, 1 << 34))
    large = data.draw(st.integers(small, 1 << 34))
    threshold = mesh.box.hccl.broadcast_two_phase_bytes
    if pattern == "broadcast" and small <= threshold < large:
        return  # the algorithm changes there
    assert 0 <= mesh.seconds(pattern, small) <= mesh.seconds(pattern, large)
    assert cards > 1 or mesh.seconds(pattern, large) == 0


def test_what_the_model_refuses() -> None:
    box = load_box("hls2")
    with pytest.raises(ConfigurationError, match=r"9 ranks.*hls2 has 8"):
        DirectMesh(box, 9)
    with pytest.raises(ValueError, match="unknown collective pattern 'gossip'"):
        DirectMesh(box, 8).seconds("gossip", 1)
    with pytest.raises(ValueError, match="-1 bytes"):
        DirectMesh(box, 8).seconds("all_reduce", -1)


@pytest.mark.parametrize("name", BOXES)
def test_every_box_fits_its_card_and_every_figure_has_a_source(name: str) -> None:
    box = load_box(name)
    assert load_card(box.card).box == name and box.name == name and box.cards == 8
    ports = {"hls1": 10, "hls2": 24, "hls3": 24}[name]
    assert box.ports.per_pair * (box.cards - 1) + box.ports.scale_out == ports
    for line in (configs_dir() / "boxes" / f"{name}.toml").read_text().splitlines():
        key = line.partition("=")[0].strip()
        if "=" in line and not line.startswith("#") and key not in ("name", "card"):
            assert "# " in line, line


def test_every_card_has_its_box() -> None:
    assert {load_box(load_card(name).box).name for name in CARDS} == set(BOXES)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    (
        ("cards = 8", "cards = 0", "cards must be more than 0"),
        ("cards = 8", "cards = -8", "must not be negative"),
        ("cards = 8", "cards = 'eight'", "cards must be int"),
        ("per_pair = 3", "", "key 'per_pair' is missing"),
        ("per_pair = 3", "per_pair = 3\nper_peer = 3", "unknown key 'per_peer'"),
        ("efficiency = 0.985", "efficiency = 98.5", "at most 1"),
        ("[roce]", "roce = 1\n[rocky]", "must be a table|unknown key"),
        ("[hccl]", "[hccl", "not valid TOML"),
    ),
)
def test_a_box_file_of_ones_own_is_checked(tmp_path: Path, before: str, after: str, words: str) -> None:
    text = (configs_dir() / "boxes" / "hls2.toml").read_text()
    assert before in text
    path = tmp_path / "mine.toml"
    path.write_text(text)
    assert load_box(str(path)).name == "hls2"
    path.write_text(text.replace(before, after))
    with pytest.raises(ConfigurationError, match=words):
        load_box(str(path))


def test_unknown_boxes_are_named() -> None:
    with pytest.raises(ConfigurationError, match="unknown box 'hls9'; choose one of hls1, hls2, hls3"):
        load_box("hls9")
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml cannot be read"):
        load_box("/nowhere.toml")
