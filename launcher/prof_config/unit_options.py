"""Options that switch single units of a generation's engines, and set their bus monitors: --tpc0, --mme_sbte_bmon."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from device.profiler import document as names
from device.profiler.document import Document
from device.profiler.units import groups, monitor_name, switch_name

from .settings import switch

MEASURES = ("bw", "lat", "out")
MONITOR_FORM = "[[engines][bw,lat,out][numbers][numbers]]"


@dataclass(frozen=True)
class Switchable:
    """An option of one generation, and the name of its setting."""

    option: str
    setting: str
    is_monitor: bool


def unit_options(arch: str) -> Iterator[Switchable]:
    """Options of a generation: of a group, its bus monitors, its units and their parts."""
    for group, units in groups(arch).items():
        lower = group.lower()
        yield Switchable(f"--{lower}", switch_name(arch, group), is_monitor=False)
        for part in ("", *units.parts):
            option = f"--{lower}_{part}_bmon" if part else f"--{lower}_bmon"
            yield Switchable(option, monitor_name(arch, group, part), is_monitor=True)
        for unit in units.names():
            for name in (unit, *(f"{unit}_{part}" for part in units.parts)):
                yield Switchable(f"--{name}", switch_name(arch, group, name), is_monitor=False)


def all_options() -> list[str]:
    """Options of all generations."""
    return sorted({option.option for arch in names.ARCHITECTURES for option in unit_options(arch)})


def put_unit(document: Document, arch: str, option: str, text: str) -> Switchable:
    """Set a unit's switch or monitor. Raises ValueError that says what to use instead."""
    known = {one.option: one for one in unit_options(arch)}
    chosen = known.get(option)
    if chosen is None:
        raise ValueError(f"{arch} has no such unit; it has {described(arch)}")
    if chosen.is_monitor:
        check_monitor(text)
        document[chosen.setting] = text
    else:
        document[chosen.setting] = switch(text)
    document[names.ARCHITECTURE] = arch
    return chosen


def described(arch: str) -> str:
    """The units of a generation in words."""
    texts = []
    for group, units in groups(arch).items():
        ranges = [_in_words(pattern) for pattern in units.units]
        parts = f" (each with {', '.join('_' + part for part in units.parts)})" if units.parts else ""
        texts.append(", ".join([group.lower(), *ranges]) + parts)
    return "; ".join(texts)


def _in_words(pattern: str) -> str:
    found = re.fullmatch(r"(.*?)(\d+)-(\d+)", pattern)
    return f"{found[1]}{found[2]} to {found[1]}{found[3]}" if found else pattern


def check_monitor(text: str) -> None:
    """Check the settings of bus monitors, such as `[[0,1][bw,lat,out][512,256][]]`. Raises ValueError."""
    found = re.fullmatch(r"\[((?:\[[^\[\]]*\]){2,4})\]", text.replace(" ", ""))
    if found is None:
        raise ValueError(f"use {MONITOR_FORM}")
    engines, measures, *numbers = [part.split(",") if part else [] for part in re.findall(r"\[([^\[\]]*)\]", found[1])]
    for list_ in (engines, *numbers):
        if any(not part.isdecimal() for part in list_):
            raise ValueError(f"use {MONITOR_FORM}, engines and numbers being whole numbers parted by commas")
    if any(measure not in MEASURES for measure in measures):
        raise ValueError(f"use {MONITOR_FORM}; measures are {', '.join(MEASURES)}")
