"""Card descriptions: the three that come with the project, a user's own, and everything that can be wrong in one."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from collectives.roce.box import load_box
from device.description import configs_dir
from device.errors import ConfigurationError
from device.spec import CARDS, load_card

GAUDI2 = (configs_dir() / "cards" / "gaudi2.toml").read_text()


def file_with(folder: Path, text: str, name: str = "mine.toml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", CARDS)
class TestShippedCards:
    def test_it_describes_itself_and_its_box(self, name: str) -> None:
        card = load_card(name)
        box = load_box(card.box)
        assert (card.name, box.card) == (name, name)
        assert card.nic.scale_up == box.ports_per_pair * (box.cards - 1)
        assert card.nic.scale_out == len(box.scale_out[0])
        assert card.nic.line_rate_bytes_per_s == box.ports.line_rate_bytes_per_s

    def test_the_array_gives_the_peak(self, name: str) -> None:
        mme = load_card(name).mme
        assert 2 * mme.count * mme.rows * mme.columns * mme.clock_hz == pytest.approx(
            mme.peak_flops["bfloat16"], rel=0.01
        )

    def test_each_figure_has_its_source(self, name: str) -> None:
        for line in (configs_dir() / "cards" / f"{name}.toml").read_text().splitlines():
            if re.match(r"\w+ = ", line) and not line.startswith("name ="):
                assert re.search(r"# \S+ \S+|# fitted|# hl-smi|# the same|# 100 GbE|# 200 GbE", line), line

    def test_what_is_assumed_says_so(self, name: str) -> None:
        """Latencies and efficiencies without a publication carry the word."""
        text = (configs_dir() / "cards" / f"{name}.toml").read_text()
        for key in ("record_s", "launch_s", "kernel_s", "latency_s", "eager_s", "burst_s"):
            assert re.search(rf"^{key} = .*# .*assumed", text, re.MULTILINE), key


def test_generations_in_order() -> None:
    cards = [load_card(name) for name in CARDS]
    assert [card.hbm.capacity_bytes for card in cards] == [32 * 2**30, 96 * 2**30, 128 * 2**30]
    assert [card.mme.peak_flops["bfloat16"] for card in cards] == [60e12, 432e12, 1835e12]
    assert [card.tpc.count for card in cards] == [8, 24, 64]


class TestOwnCard:
    def test_a_whole_file(self, tmp_path: Path) -> None:
        path = file_with(tmp_path, GAUDI2.replace("1.8e9", "2.5e9"))
        assert load_card(path).tpc.clock_hz == 2.5e9

    def test_only_what_differs(self, tmp_path: Path) -> None:
        """The rest comes from the card that it is based on, also inside tables by dtype."""
        path = file_with(
            tmp_path, 'based_on = "gaudi3"\n[hbm]\nbandwidth_bytes_per_s = 8e12\n[mme]\npeak_flops.float8 = 3670e12\n'
        )
        base, card = load_card("gaudi3"), load_card(path)
        assert card.name == "mine"
        assert card.mme.peak_flops == {**base.mme.peak_flops, "float8": 3670e12}
        assert card.hbm == dataclasses.replace(base.hbm, bandwidth_bytes_per_s=8e12)
        assert dataclasses.replace(card, name=base.name, hbm=base.hbm, mme=base.mme) == base

    def test_a_name_of_its_own(self, tmp_path: Path) -> None:
        assert load_card(file_with(tmp_path, 'based_on = "gaudi2"\nname = "later"\n')).name == "later"

    def test_based_on_another_file(self, tmp_path: Path) -> None:
        """A relative path starts at the file that names it."""
        file_with(tmp_path, 'based_on = "gaudi2"\n[tpc]\ncount = 32\n', "wide.toml")
        path = file_with(tmp_path, 'based_on = "wide.toml"\n[tpc]\nclock_hz = 2e9\n')
        assert (load_card(path).tpc.count, load_card(path).tpc.clock_hz) == (32, 2e9)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('based_on = "gaudi9"', "based_on: unknown card 'gaudi9'; choose one of gaudi, gaudi2, gaudi3"),
            ("based_on = 2", "based_on must be the name of a card"),
            ('based_on = "mine.toml"', "goes round in a circle"),
            ('based_on = "gone.toml"', "cannot be read: No such file"),
            ('based_on = "gaudi2"\n[tpc]\ncout = 3', "[tpc]: unknown key 'cout' (3); did you mean count?"),
            ('based_on = "gaudi2"\ntpc = 3', "[tpc] must be a table; got 3"),
        ],
    )
    def test_a_bad_base(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(ConfigurationError) as caught:
            load_card(file_with(tmp_path, text))
        assert message in str(caught.value)

    def test_an_unknown_card_names_the_known_ones(self) -> None:
        with pytest.raises(ConfigurationError, match=r"unknown card 'gaudi9'.*gaudi, gaudi2, gaudi3"):
            load_card("gaudi9")

    def test_not_text(self, tmp_path: Path) -> None:
        (tmp_path / "mine.toml").write_bytes(b"\xff\xfe")
        with pytest.raises(ConfigurationError, match=r"mine\.toml is not valid TOML"):
            load_card(str(tmp_path / "mine.toml"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # a unit
        (
            "clock_hz = 1.8e9",
            "clock_mhz = 1800",
            "[tpc]: unknown key 'clock_mhz' (1800); did you mean clock_hz (in Hz)?",
        ),
        ("capacity_bytes = 1030", "capacity_gb = 1030", "did you mean capacity_bytes (in bytes)?"),
        (
            "bandwidth_bytes_per_s = 2.45e12",
            "bandwidth_gbps = 2450",
            "did you mean bandwidth_bytes_per_s (in bytes per second)?",
        ),
        ("latency_s = 10e-6", "latency_us = 10", "did you mean latency_s (in seconds)?"),
        ("limit_w = 600.0", "limit_kw = 0.6", "did you mean limit_w (in watts)?"),
        ("peak_flops = ", "peak_tflops = ", "did you mean peak_flops (in operations per second)?"),
        # a key
        ("[sram]", "[srram]", "unknown key 'srram'"),
        ("\ncount = 24 ", "\ncores = 24 ", "[tpc]: unknown key 'cores' (24)"),
        ('product = "HL-225"', "", "key 'product' is missing"),
        ("limit_w = 600.0", "", "[power]: key 'limit_w' is missing"),
        ("[sram]", "[sram", "not valid TOML"),
        # a type
        ("\ncount = 24 ", '\ncount = "many" ', "[tpc]: count must be int; got 'many'"),
        ("\ncount = 24 ", "\ncount = 24.5 ", "[tpc]: count must be int; got 24.5"),
        ("\ncount = 24 ", "\ncount = true ", "[tpc]: count must be int; got True"),
        ('name = "gaudi2"', "name = 2", "name must be str; got 2"),
        ("bfloat16 = 432e12", 'bfloat16 = "fast"', "[mme]: peak_flops.bfloat16 must be float; got 'fast'"),
        ("refused = []", 'refused = "float16"', "[dtypes]: refused must be a list; got 'float16'"),
        ("refused = []", "refused = [16]", "[dtypes]: refused must be str; got 16"),
        ("tile = {", "tile = 256 # {", "[mme]: tile must be a table of name = number; got 256"),
        # a figure
        ("\ncount = 24 ", "\ncount = -24 ", "[tpc]: count must not be negative; got -24"),
        ("\ncount = 24 ", "\ncount = 0 ", "[tpc]: count must be more than 0; got 0"),
        (
            "bandwidth_bytes_per_s = 2.45e12",
            "bandwidth_bytes_per_s = 0",
            "[hbm]: bandwidth_bytes_per_s must be more than 1000000 bytes per second; got 0.0",
        ),
        ("efficiency = 0.85", "efficiency = 85", "[hbm]: efficiency must be at most 1; got 85.0"),
        ("efficiency = 0.85", "efficiency = nan", "[hbm]: efficiency must be a finite number; got nan"),
        ("limit_w = 600.0", "limit_w = inf", "[power]: limit_w must be a finite number; got inf"),
        (
            "bfloat16 = 432e12",
            "bfloat16 = 0",
            "[mme]: peak_flops.bfloat16 must be more than 1000000000 operations per second; got 0.0",
        ),
        ("kernel_s = 1.5e-6", "kernel_s = -1.5e-6", "[device]: kernel_s must not be negative; got -1.5e-06"),
        (
            "exposed_load = {",
            "exposed_load = { bfloat16 = 2.0 } # {",
            "exposed_load.bfloat16 must be at most 1; got 2.0",
        ),
        ("refused = []", 'refused = ["int4"]', "[dtypes] refused has 'int4'; a card can lack float16"),
        ("engine_shares = {", "engine_shares = { MME = 1.0 } # {", "give MME, TPC, DMA, NIC, which add up to 1"),
        # a figure in another unit
        ("clock_hz = 1.8e9", "clock_hz = 1.8", "[tpc]: clock_hz must be more than 1000000 Hz; got 1.8"),
        ("bfloat16 = 432e12", "bfloat16 = 432", "must be more than 1000000000 operations per second; got 432.0"),
        ("capacity_bytes = 103079215104", "capacity_bytes = 96", "capacity_bytes must be more than 4095 bytes; got 96"),
        ("bandwidth_bytes_per_s = 2.45e12", "bandwidth_bytes_per_s = 2450", "1000000 bytes per second; got 2450.0"),
        ("record_s = 4e-6", "record_s = 4", "[host]: record_s must be at most 1 seconds; got 4.0"),
        # two figures
        (
            "pool_bytes = 101602590720",
            "pool_bytes = 901602590720",
            "[hbm] pool_bytes is 901602590720, more than [hbm] capacity_bytes",
        ),
        ("idle_w = 90.0", "idle_w = 840.0", "[power] idle_w is 840.0, more than [power] limit_w, 600.0"),
        ("scale_out = 3", "scale_out = 30", "[nic] scale_up + scale_out is 51, more than [nic] ports, 24"),
        ("bfloat16 = 432e12, ", "", "which peak_flops does not"),
        (
            "bfloat16 = 432e12",
            "int4 = 9e15, bfloat16 = 432e12",
            "[mme] tile lacks 'int4', which peak_flops has: add it",
        ),
        ("float32 = 128 }", "int4 = 3, float32 = 128 }", "[mme] tile has 'int4', which peak_flops does not"),
    ],
)
def test_a_bad_file_is_named_with_its_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GAUDI2
    with pytest.raises(ConfigurationError, match=r"mine\.toml") as caught:
        load_card(file_with(tmp_path, GAUDI2.replace(old, new)))
    assert message in str(caught.value)


def test_a_base_that_no_file_system_takes(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="based_on: unknown card"):
        load_card(file_with(tmp_path, 'based_on = "a\\u0000.toml"\n'))


def test_zero_is_fine_where_it_means_nothing_to_pay(tmp_path: Path) -> None:
    path = file_with(tmp_path, 'based_on = "gaudi2"\n[host]\nrecord_s = 0\nlaunch_s = 0\n[pcie]\nlatency_s = 0\n')
    assert load_card(path).host.record_s == 0.0
