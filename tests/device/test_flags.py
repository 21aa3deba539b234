"""Environment variables as data: kinds, defaults by release and mode, values set at run time, hints."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from device import flags
from device.errors import ConfigurationError

KINDS = {"flag": bool, "number": int, "text": str}


@pytest.fixture(autouse=True)
def nothing_read_yet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(flags, "_values", {})
    yield


def test_defaults_are_of_their_variables_kind() -> None:
    for variable in flags.variables().values():
        defaults = [variable.default, variable.default_eager, *(value for _, value in variable.later_defaults)]
        assert all(type(value) is KINDS[variable.kind] for value in defaults), variable.name


def test_the_bridge_has_all_flags_of_release_1_19() -> None:
    assert len([variable for variable in flags.bridge_variables() if variable.source == "bridge"]) == 177


@pytest.mark.parametrize(
    ("software", "name", "value"),
    [
        ("1.19.0", "PT_HPU_RECIPE_CACHE_CONFIG", ""),
        ("1.21.0", "PT_HPU_RECIPE_CACHE_CONFIG", ",false,1024"),
        ("1.22.0", "PT_HPU_RECIPE_CACHE_CONFIG", ",false,1024,false"),
        ("1.19.0", "PT_HPU_LAZY_MODE", 1),
        ("1.20.0", "PT_HPU_LAZY_MODE", 0),
        ("1.19.0", "PT_ENABLE_INT64_SUPPORT", False),
        ("1.20.0", "PT_ENABLE_INT64_SUPPORT", True),
    ],
)
def test_defaults_follow_the_release(
    monkeypatch: pytest.MonkeyPatch, software: str, name: str, value: flags.Value
) -> None:
    monkeypatch.setenv("HPUCLUSTER_SOFTWARE", software)
    monkeypatch.delenv("PT_HPU_LAZY_MODE", raising=False)
    assert flags.get(name) == value


def test_a_variable_keeps_the_value_that_it_had_when_it_was_first_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PT_HPU_SCALAR_MAP_MAXSIZE", "7")
    assert flags.get("PT_HPU_SCALAR_MAP_MAXSIZE") == 7
    monkeypatch.setenv("PT_HPU_SCALAR_MAP_MAXSIZE", "8")
    assert flags.get("PT_HPU_SCALAR_MAP_MAXSIZE") == 7


def test_setting_says_whether_it_changes_anything() -> None:
    assert flags.set("PT_COMPILE_ONLY_MODE", False)
    assert not flags.set("PT_HPU_LAZY_MODE", 1)
    assert flags.get("PT_HPU_LAZY_MODE") == 1


@pytest.mark.parametrize(("name", "value"), [("PT_COMPILE_ONLY_MODE", 1), ("PT_HPU_LAZY_MODE", True)])
def test_setting_a_value_of_another_kind_is_an_error(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=name):
        flags.set(name, value)


def test_an_unknown_name_gets_the_nearest_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PT_HPU_LAZY_MDOE", "0")
    environ = {"PT_HPU_LAZY_MDOE": "0", "PT_HPU_LAZY_MODE": "0", "SOMETHING_ELSE": "1", "PT_HPU_XYZZY": "1"}
    lines = flags.unknown(environ)
    assert [line.split()[0] for line in lines] == ["PT_HPU_LAZY_MDOE", "PT_HPU_XYZZY"]
    assert lines[0].endswith("did you mean PT_HPU_LAZY_MODE?")
    assert "did you mean" not in lines[1]
    with pytest.raises(ConfigurationError, match="PT_HPU_LAZY_MDOE is no known variable; did you mean"):
        flags.get("PT_HPU_LAZY_MDOE")


def test_a_value_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PT_COMPILE_ONLY_MODE", "perhaps")
    with pytest.raises(ConfigurationError, match="PT_COMPILE_ONLY_MODE='perhaps' is not a boolean"):
        flags.get("PT_COMPILE_ONLY_MODE")
