"""Reading a TOML description into a dataclass, with every bad key and value named."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from .errors import ConfigurationError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def configs_dir() -> Path:
    """Folder of the card, box and fabric descriptions."""
    return Path(__file__).resolve().parent.parent / "configs"


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
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{kind} file {path} is not valid TOML: {error}") from error


def parse_table(kind: type, table: dict[str, Any], where: str, names: Mapping[str, Any]) -> Any:
    """An instance of the dataclass `kind` from a table whose keys are its fields; nested dataclasses are sub-tables.

    Args:
        kind: the dataclass.
        table: what was read.
        where: file and table, for messages.
        names: the globals of the module that defines `kind`. The module itself may be hidden behind a user's by then.

    Raises:
        ConfigurationError: an unknown or missing key, a value of another type, a negative figure.
    """
    hints = get_type_hints(kind, dict(names))
    known = [field.name for field in dataclasses.fields(kind)]
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise ConfigurationError(f"{where}: unknown key {unknown[0]!r}; known keys: {', '.join(known)}")
    values: dict[str, Any] = {}
    for name in known:
        if name not in table:
            raise ConfigurationError(f"{where}: key {name!r} is missing")
        wanted, value = hints[name], table[name]
        if dataclasses.is_dataclass(wanted):
            if not isinstance(value, dict):
                raise ConfigurationError(f"{where}: [{name}] must be a table; got {value!r}")
            values[name] = parse_table(wanted, value, f"{where}: [{name}]", names)  # type: ignore[arg-type]
            continue
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if wanted in (int, float, str) and (not isinstance(value, wanted) or isinstance(value, bool)):
            raise ConfigurationError(f"{where}: {name} must be {wanted.__name__}; got {value!r}")
        if wanted in (int, float) and value < 0:
            raise ConfigurationError(f"{where}: {name} must not be negative; got {value!r}")
        values[name] = value
    return kind(**values)
