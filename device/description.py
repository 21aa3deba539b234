"""Reading a TOML description into a dataclass, with every bad key and value named.

A field's limits stand in its type: `Count` and `Positive` for figures of which zero is absurd, `Share` and `Fraction`
for parts of a whole; `Frequency`, `Bandwidth`, `Flops`, `Size` and `Delay` are narrow enough to show a figure that was
written in another unit (1.8 for 1.8 GHz). All other numbers may be zero but not negative; none may be NaN or infinite.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

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


@dataclasses.dataclass(frozen=True)
class Limits:
    """A number must be more than `above` and at most `at_most`, in `unit`."""

    above: float = -math.inf
    at_most: float = math.inf
    unit: str = ""


Count = Annotated[int, Limits(above=0)]
Positive = Annotated[float, Limits(above=0)]
Share = Annotated[float, Limits(above=0, at_most=1)]
Fraction = Annotated[float, Limits(at_most=1)]
Frequency = Annotated[float, Limits(above=1e6, at_most=1e12, unit=" Hz")]
Bandwidth = Annotated[float, Limits(above=1e6, at_most=1e18, unit=" bytes per second")]
Flops = Annotated[float, Limits(above=1e9, at_most=1e21, unit=" operations per second")]
Size = Annotated[int, Limits(above=4095, at_most=2**48, unit=" bytes")]
Delay = Annotated[float, Limits(at_most=1, unit=" seconds")]


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


def parse_table(kind: type, table: dict[str, Any], where: str) -> Any:
    """An instance of the dataclass `kind` from a table whose keys are its fields; nested dataclasses are sub-tables.

    Args:
        kind: the dataclass.
        table: what was read.
        where: file and table, for messages.

    Raises:
        ConfigurationError: an unknown or missing key, a value of another type, a figure out of its limits.
    """
    # The names in the annotations are those of the module that defines `kind`, which may be hidden behind a user's by
    # now; its functions still know them.
    names = kind.__init__.__globals__  # type: ignore[misc]
    hints = get_type_hints(kind, names, include_extras=True)
    known = [field.name for field in dataclasses.fields(kind)]
    for name, value in sorted(table.items()):
        if name not in known:
            raise ConfigurationError(f"{where}: unknown key {name!r} ({value!r}); {_suggestion(name, known)}")
    values: dict[str, Any] = {}
    for name in known:
        if name not in table:
            raise ConfigurationError(f"{where}: key {name!r} is missing: add it")
        if dataclasses.is_dataclass(hints[name]):
            if not isinstance(table[name], dict):
                raise ConfigurationError(f"{where}: [{name}] must be a table; got {table[name]!r}")
            values[name] = parse_table(hints[name], table[name], f"{where}: [{name}]")
        else:
            values[name] = _checked(table[name], hints[name], f"{where}: {name}")
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


def _checked(value: Any, wanted: Any, where: str) -> Any:
    """`value` as the type `wanted`, within its limits."""
    limits, origin, arguments = Limits(), get_origin(wanted), get_args(wanted)
    if origin is dict:
        if not isinstance(value, dict):
            raise ConfigurationError(f"{where} must be a table of name = number; got {value!r}")
        return {key: _checked(item, arguments[1], f"{where}.{key}") for key, item in value.items()}
    if origin is list:
        if not isinstance(value, list):
            raise ConfigurationError(f"{where} must be a list; got {value!r}")
        return [_checked(item, arguments[0], where) for item in value]
    if origin is Annotated:
        wanted, limits = arguments
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
    if value <= limits.above:
        raise ConfigurationError(f"{where} must be more than {limits.above:.15g}{limits.unit}; got {value!r}")
    if value > limits.at_most:
        raise ConfigurationError(f"{where} must be at most {limits.at_most:.15g}{limits.unit}; got {value!r}")
    return value
