"""`-Q`: chosen fields of each card as comma-separated values."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from device.board import Firmware

from ..messages import UserError
from .box import Aip

TIME_FORMAT = "%a %b %d %H:%M:%S %Z %Y"

Value = str | int


@dataclass(frozen=True)
class Field:
    """A field: its value of a card, and the value's unit."""

    read: Callable[[Aip, Firmware], Value]
    unit: str = ""


def _megahertz(aip: Aip, _firmware: Firmware) -> int:
    return round(aip.kind.clock_hz / 1e6)


def _none(_aip: Aip, _firmware: Firmware) -> int:
    return 0


def _enabled(_aip: Aip, _firmware: Firmware) -> str:
    return "Enabled"


FIELDS: dict[str, Field] = {
    "timestamp": Field(lambda aip, _: time.strftime(TIME_FORMAT)),
    "index": Field(lambda aip, _: aip.index),
    "module_id": Field(lambda aip, _: aip.module),
    "name": Field(lambda aip, _: aip.kind.product),
    "bus_id": Field(lambda aip, _: aip.bus_id),
    "serial": Field(lambda aip, _: aip.serial),
    "uuid": Field(lambda aip, _: aip.uuid),
    "driver_version": Field(lambda aip, firmware: firmware.driver),
    "nic_driver_version": Field(lambda aip, firmware: firmware.driver),
    "temperature.aip": Field(lambda aip, _: round(aip.temperatures.chip), "C"),
    "utilization.aip": Field(lambda aip, _: aip.utilization, "%"),
    "memory.total": Field(lambda aip, _: aip.memory_total, "MiB"),
    "memory.free": Field(lambda aip, _: aip.memory_free, "MiB"),
    "memory.used": Field(lambda aip, _: aip.memory_used, "MiB"),
    "memory.allocated": Field(lambda aip, _: aip.memory_allocated, "MiB"),
    "memory.peak": Field(lambda aip, _: aip.memory_peak, "MiB"),
    "power.draw": Field(lambda aip, _: round(aip.watts), "W"),
    "power.max": Field(lambda aip, _: round(aip.kind.power.limit_w), "W"),
    "clocks.current.soc": Field(_megahertz, "MHz"),
    "clocks.max.soc": Field(_megahertz, "MHz"),
    "clocks.limit.soc": Field(_megahertz, "MHz"),
    "clocks.limit.tpc": Field(_megahertz, "MHz"),
    **{
        f"ecc.errors.{kind}.{span}.total": Field(_none)
        for kind in ("uncorrected", "corrected", "dram", "dram-corrected")
        for span in ("aggregate", "volatile")
    },
    "ecc.mode.current": Field(_enabled),
    "ecc.mode.pending": Field(_enabled),
    "stats.violation.power": Field(_none),
    "stats.violation.thermal": Field(_none),
}
"""The real tool's fields and two of the emulator's own: memory.allocated and memory.peak, what tensors hold."""


@dataclass(frozen=True)
class Format:
    """How the values are written."""

    header: bool = True
    units: bool = True


def parse_fields(text: str) -> list[str]:
    """The fields named in a comma-separated list, in its order. Raises UserError."""
    names = [part.strip().lower() for part in text.split(",")]
    for name in names:
        if name not in FIELDS:
            raise UserError(f"-Q/--query-aip: unknown field {name!r}; choose from {', '.join(FIELDS)}")
    return names


def parse_format(text: str) -> Format:
    """The format `csv[,noheader][,nounits]`. Raises UserError."""
    parts = [part.strip() for part in text.split(",")]
    unknown = [part for part in parts if part not in ("csv", "noheader", "nounits")]
    if unknown or "csv" not in parts:
        raise UserError(f"-f/--format {text}: use csv, which may be followed by ,noheader and ,nounits")
    return Format(header="noheader" not in parts, units="nounits" not in parts)


def values(aips: list[Aip], firmware: Firmware, names: list[str], form: Format) -> str:
    """A line for each card, below a line with the fields' names and units."""
    fields = [FIELDS[name] for name in names]
    lines = []
    if form.header:
        units = (f" [{field.unit}]" if field.unit else "" for field in fields)
        lines.append(", ".join(name + unit for name, unit in zip(names, units, strict=True)))
    for aip in aips:
        lines.append(", ".join(_written(field, field.read(aip, firmware), form) for field in fields))
    return "\n".join(lines)


def _written(field: Field, value: Value, form: Format) -> str:
    return f"{value} {field.unit}" if field.unit and form.units else str(value)
