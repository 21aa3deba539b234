"""The page of the Gaudi software's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from device.description import configs_dir, read_table
from habana_frameworks import _shield

api_coverage = _shield.load("launcher.api_coverage")


@pytest.fixture(scope="module")
def names() -> list[Any]:
    return api_coverage.entries()


def test_the_page_is_current(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    checkout = Path(__file__).parents[2]
    assert (checkout / "docs" / api_coverage.PAGE).read_text() == api_coverage.page(), (
        "run python -m launcher.api_coverage"
    )
    monkeypatch.chdir(checkout)
    assert api_coverage.main(["--check"]) == 0
    monkeypatch.chdir(tmp_path)
    assert api_coverage.main([]) == 2


def test_what_scripts_use_most_is_there(names: list[Any]) -> None:
    assert sum(entry.is_must for entry in names) > 50
    assert [entry.full_name for entry in names if entry.is_must and entry.state == api_coverage.ABSENT] == []


def test_no_name_stands_twice(names: list[Any]) -> None:
    assert len({entry.full_name for entry in names}) == len(names)


def test_every_gap_is_one_of_a_listed_name(names: list[Any]) -> None:
    full = [entry.full_name for entry in names]
    for table in read_table(configs_dir() / "api" / "gaps.toml", "names").values():
        for key in table:
            assert any(name == key or (key[-1] in "._" and name.startswith(key)) for name in full), key


def test_what_is_absent_has_a_reason(names: list[Any]) -> None:
    assert all(entry.note for entry in names if entry.state != api_coverage.FULL)


@pytest.mark.parametrize(
    ("module", "name", "there"),
    [
        ("habana_frameworks.torch.hpu", "Stream.synchronize", True),
        ("habana_frameworks.torch.utils", "internal.is_lazy", True),
        ("habana_frameworks.torch.hpu", "empty_caches", False),
        ("habana_frameworks.torch.nothing", "", False),
        ("torch.ops.hpu", "nothing", False),
    ],
)
def test_whether_a_name_is_there(module: str, name: str, there: bool) -> None:
    assert api_coverage.exists(module, name) == there
