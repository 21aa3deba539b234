"""What a process says when it acquires its card."""

from __future__ import annotations

import pytest

from device import flags, startup, strict


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flags, "_values", {})
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PT_HPU_LAZY_MODE", "HB_BUILD_VER", "HPUCLUSTER_STRICT"):
        monkeypatch.delenv(name, raising=False)


def names_and_values(lines: list[str]) -> dict[str, str]:
    pairs = (line[1:].partition(" = ") for line in lines if line.startswith(" ") and " = " in line)
    return {name: value for name, _, value in pairs}


def test_banner_of_1_19(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPUCLUSTER_SOFTWARE", "1.19.0")
    lines = startup.banner()
    assert lines[0] == f"{'=' * 29} HABANA PT BRIDGE CONFIGURATION {'=' * 27} "
    assert names_and_values(lines) == {
        "PT_HPU_LAZY_MODE": "1",
        "PT_RECIPE_CACHE_PATH": "",
        "PT_CACHE_FOLDER_DELETE": "0",
        "PT_HPU_RECIPE_CACHE_CONFIG": "",
        "PT_HPU_MAX_COMPOUND_OP_SIZE": "9223372036854775807",
        "PT_HPU_LAZY_ACC_PAR_MODE": "1",
        "PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES": "0",
        "PT_HPU_EAGER_PIPELINE_ENABLE": "1",
        "PT_HPU_EAGER_COLLECTIVE_PIPELINE_ENABLE": "1",
    }
    assert lines[-4] == f"{'-' * 27}: System Configuration :{'-' * 27}"
    assert lines[-2].startswith("CPU RAM       : ") and lines[-2].endswith(" KB")


def test_banner_of_1_22(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPUCLUSTER_SOFTWARE", "1.22.0")
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("HB_BUILD_VER", "1.22.1")
    lines = startup.banner()
    assert lines[:3] == [
        f"{'=' * 29} HPU SW VERSION {'=' * 38} ",
        " HB_BUILD_VER = 1.22.1",
        f"{'=' * 29} HPU PT BRIDGE CONFIGURATION ON RANK = 3 {'=' * 13} ",
    ]
    values = names_and_values(lines[2:])
    assert values["PT_HPU_RECIPE_CACHE_CONFIG"] == ",false,1024,false"
    assert values["PT_HPU_ENABLE_LAZY_COLLECTIVES"] == "0"
    assert "PT_RECIPE_CACHE_PATH" not in values
    assert lines[-2].endswith(" GB")


@pytest.mark.parametrize(("rank", "variable", "shown"), [("0", "0", True), ("1", "0", False), ("1", "1", True)])
def test_rank_0_shows_it_or_all(monkeypatch: pytest.MonkeyPatch, rank: str, variable: str, shown: bool) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("PT_HPU_PRINT_DEVICE_CONFIG", variable)
    assert startup.shows_banner() == shown


def test_a_slip_of_the_pen_is_told_once_and_refused_by_the_strict_switch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PT_HPU_MAX_COMPOUND_OP_SIZ", "10")
    startup.refuse_unknown_variables()
    startup.announce()
    hints = [line for line in capsys.readouterr().err.splitlines() if line.startswith("hpu: ")]
    assert len(hints) == 1 and hints[0].endswith("did you mean PT_HPU_MAX_COMPOUND_OP_SIZE?")
    monkeypatch.setitem(flags._values, strict.SWITCH, True)
    with pytest.raises(strict.StrictError, match="did you mean PT_HPU_MAX_COMPOUND_OP_SIZE"):
        startup.refuse_unknown_variables()
