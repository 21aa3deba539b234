"""The units of a card's engines that the profiler's settings switch one by one, from `configs/profiler/units.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..description import configs_dir, parse_table, read_table
from .document import ARCHITECTURES, UNITS

ENGINES = ("DMA", "MME", "TPC", "NIC")
"""Groups whose work a trace shows; the others are settings only."""


@dataclass(frozen=True)
class Group:
    """Units of one kind, such as "tpc0-7", and the parts that each of them has."""

    units: list[str]
    parts: list[str]

    def names(self) -> list[str]:
        """All units: tpc0, tpc1, ..."""
        return [name for pattern in self.units for name in _expanded(pattern)]


def _expanded(pattern: str) -> list[str]:
    found = re.fullmatch(r"(.*?)(\d+)-(\d+)", pattern)
    return [f"{found[1]}{number}" for number in range(int(found[2]), int(found[3]) + 1)] if found else [pattern]


def groups(arch: str) -> dict[str, Group]:
    """The groups of a generation by name."""
    path = configs_dir() / "profiler" / "units.toml"
    table = read_table(path, "profiler units")[arch]
    return {name: parse_table(Group, table[name], f"{path}: {arch}.{name}") for name in table}


def switch_name(arch: str, group: str, unit: str = "") -> str:
    """Name of the setting that switches a group, or one of its units or their parts, on and off."""
    return f"{UNITS}.{arch}.{group}.{unit.upper()}.enable" if unit else f"{UNITS}.{arch}.{group}.enable"


def engines_of(document: Mapping[str, Any], arch: str | None) -> tuple[str, ...]:
    """The engines that a trace shows.

    An engine is left out where its group is off, or each of its units is. `arch`: the generation whose switches count;
    None: an engine is left out where every generation's switches leave it out.
    """
    archs = ARCHITECTURES if arch is None else (arch,)
    return tuple(engine for engine in ENGINES if any(_is_on(document, one, engine) for one in archs))


def _is_on(document: Mapping[str, Any], arch: str, engine: str) -> bool:
    if document.get(switch_name(arch, engine)) is False:
        return False
    units = groups(arch)[engine].names()
    return any(document.get(switch_name(arch, engine, unit)) is not False for unit in units)


def monitor_name(arch: str, group: str, part: str = "") -> str:
    """Name of the setting of a group's bus monitors, or of those of one part of its units."""
    return f"{UNITS}.{arch}.{group}.{part.upper() + '_' if part else ''}BMON.config"


def without(engines: tuple[str, ...]) -> dict[str, bool]:
    """Settings that leave out all engines but these, in every generation."""
    return {switch_name(arch, engine): False for arch in ARCHITECTURES for engine in ENGINES if engine not in engines}
