"""Power, energy and temperature by hand, and that energy never falls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device.power import busy_seconds, energy_joules, power_watts, temperatures
from device.spec import CARDS, load_card

GAUDI2 = load_card("gaudi2").power  # 90 W idle, 600 W limit; MME 0.55, TPC 0.25, DMA 0.12, NIC 0.08
ENGINES = ("MME", "TPC", "DMA", "NIC")


def test_an_idle_card_draws_its_idle_power() -> None:
    assert energy_joules(GAUDI2, {}, 10.0) == pytest.approx(900.0)
    assert power_watts(GAUDI2, {}, 0.0) == 90.0


def test_each_engine_adds_its_share() -> None:
    # 2 s of which the MME is busy for 1 s and the TPCs for 0.5 s: 180 J + 510 W x (0.55 x 1 s + 0.25 x 0.5 s)
    assert energy_joules(GAUDI2, {"MME": 1.0, "TPC": 0.5}, 2.0) == pytest.approx(180.0 + 510.0 * 0.675)
    assert power_watts(GAUDI2, {"MME": 1.0, "TPC": 0.5}, 2.0) == pytest.approx(90.0 + 510.0 * 0.3375)


def test_all_engines_busy_draw_the_limit() -> None:
    assert power_watts(GAUDI2, dict.fromkeys(ENGINES, 3.0), 3.0) == pytest.approx(600.0)
    assert power_watts(GAUDI2, 3.0, 3.0) == pytest.approx(600.0)


def test_temperature_follows_power() -> None:
    assert temperatures(GAUDI2, 90.0).chip == pytest.approx(29.0)
    assert temperatures(GAUDI2, 600.0).chip == pytest.approx(75.0)
    halfway = temperatures(GAUDI2, 345.0)
    assert (halfway.chip, halfway.board) == (pytest.approx(52.0), pytest.approx(42.5))


def test_a_report_without_engines_counts_as_one() -> None:
    report = {"time": {"total": 4.0}, "utilization": 0.25}
    assert busy_seconds(report) == 1.0
    assert busy_seconds({**report, "engines": {"MME": 0.5}}) == {"MME": 0.5}


@pytest.mark.parametrize("name", CARDS)
def test_every_card_s_figures_fit_together(name: str) -> None:
    power = load_card(name).power
    assert sum(power.engine_shares.values()) == pytest.approx(1.0)
    assert set(power.engine_shares) == set(ENGINES)
    assert 0 < power.idle_w < power.limit_w
    assert power.chip_idle_c < power.chip_limit_c < power.threshold_slowdown_c < power.threshold_shutdown_c
    assert power.board_idle_c < power.board_limit_c


SECONDS = st.floats(0, 1e6)


@given(st.lists(st.tuples(SECONDS, st.dictionaries(st.sampled_from(ENGINES), SECONDS)), max_size=8))
def test_energy_never_falls(additions: list[tuple[float, dict[str, float]]]) -> None:
    total, busy, before = 0.0, dict.fromkeys(ENGINES, 0.0), 0.0
    for seconds, worked in additions:
        total += seconds
        for engine, extra in worked.items():
            busy[engine] += extra
        energy = energy_joules(GAUDI2, busy, total)
        assert energy >= before
        before = energy
