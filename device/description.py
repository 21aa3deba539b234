"""Reading a TOML description into a dataclass, with every bad key and value named.

A field's limits stand with the field: `positive()` for figures of which zero is absurd (a bandwidth, a count), `share()`
for efficiencies. All other numbers may be zero but not negative; none may be NaN or infinite.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from .errors import ConfigurationError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# A key ends in its unit. The other spellings of that unit are what people write by mistake.
_UNITS = {
    "bytes_per_s": ("bytes per second", ("gb_per_s", "tb_per_s", "mb_per_s", "gbps", "tbps", "gb_s", "tb_s")),
    "bytes": ("bytes", ("kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib")),
    "flops": ("operations per second", ("gflops", "tflops", "pflops")),
    "hz": ("Hz", ("khz", "mhz", "ghz")),
    "s": ("seconds", ("ms", "us", "ns", "seconds", "msec", "usec")),
    "w": ("watts", ("kw", "mw", "watts")),
}


def configs_dir() -> Path:
    """Folder of the card, box and fabric descriptions."""
    return Path(__file__).resolve().parent.parent / "configs"


def positive() -> Any:
    """A field that must be more than 0."""
    return dataclasses.field(metadata={"above": 0})


def share() -> Any:
    """A field that is a share of something: more than 0, at most 1."""
    return dataclasses.field(metadata={"above": 0, "at_most": 1})


def read_table(path: Path, kind: str) -> dict[str, Any]:
    """The table in a TOML file that describes a `kind`, such as a card.

    Raises:
        ConfigurationError: the file cannot be read or is not TOML.
    """
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigurationError(f"{kind} file {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{kind} file {path} is not valid TOML: {error}") from error


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the values of `changes`, table by table."""
    table = dict(base)
    for key, value in changes.items():
        known = table.get(key)
        table[key] = merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return table


def parse_table(kind: type, table: dict[str, Any], where: str, names: Mapping[str, Any]) -> Any:
    """An instance of the dataclass `kind` from a table whose keys are its fields; nested dataclasses are sub-tables.

    Args:
        kind: the dataclass.
        table: what was read.
        where: file and table, for messages.
        names: the globals of the module that defines `kind`. The module itself may be hidden behind a user's by then.

    Raises:
        ConfigurationError: an unknown or missing key, a value of another type, a figure out of its limits.
    """
    hints = get_type_hints(kind, dict(names))
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for name, value in sorted(table.items()):
        if name not in fields:
            raise ConfigurationError(f"{where}: unknown key {name!r} ({value!r}); {_suggestion(name, list(fields))}")
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in table:
            raise ConfigurationError(f"{where}: key {name!r} is missing: add it")
        if dataclasses.is_dataclass(hints[name]):
            if not isinstance(table[name], dict):
                raise ConfigurationError(f"{where}: [{name}] must be a table; got {table[name]!r}")
            values[name] = parse_table(hints[name], table[name], f"{where}: [{name}]", names)
        else:
            values[name] = _checked(table[name], hints[name], field.metadata, f"{where}: {name}")
    return kind(**values)


def _suggestion(name: str, known: list[str]) -> str:
    """What to write instead of an unknown key."""
    for unit, (spoken, others) in _UNITS.items():
        for key in known:
            stem = key.removesuffix(unit)
            if key != stem and name in {stem + other for other in others}:
                return f"did you mean {key} (in {spoken})?"
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known keys: {', '.join(known)}"


def _checked(value: Any, wanted: Any, limits: Mapping[str, Any], where: str) -> Any:
    """`value` as the type `wanted`, within its limits."""
    origin = get_origin(wanted)
    if origin is dict:
        if not isinstance(value, dict):
            raise ConfigurationError(f"{where} must be a table of name = number; got {value!r}")
        return {key: _checked(item, get_args(wanted)[1], limits, f"{where}.{key}") for key, item in value.items()}
    if origin is list:
        if not isinstance(value, list):
            raise ConfigurationError(f"{where} must be a list; got {value!r}")
        return [_checked(item, get_args(wanted)[0], limits, where) for item in value]
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise ConfigurationError(f"{where} must be {wanted.__name__}; got {value!r}")
    if wanted is str:
        return value
    if not math.isfinite(value):
        raise ConfigurationError(f"{where} must be a finite number; got {value!r}")
    if value < 0:
        raise ConfigurationError(f"{where} must not be negative; got {value!r}")
    if value == 0 and "above" in limits:
        raise ConfigurationError(f"{where} must be more than 0; got {value!r}")
    if value > limits.get("at_most", math.inf):
        raise ConfigurationError(f"{where} must be at most {limits['at_most']}; got {value!r}")
    return value
