"""Power, energy and temperature of a card.

    power       = idle + (limit - idle) x sum over engines of (share of the engine x its utilization)
    energy      = the integral of power over modelled time
                = idle x total + (limit - idle) x sum over engines of (share x busy seconds)
    temperature = at idle + (at the limit - at idle) x (power - idle) / (limit - idle)

The figures stand in the card file's [power] table. The shares add up to 1: with all engines busy a card draws its
limit. Energy never falls, as modelled time and busy seconds never do. Temperature follows power at once.

Left out: thermal mass, fans, throttling, the voltage's and the data's influence, power of memory that is only held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .spec import PowerSpec

Busy = Mapping[str, float] | float
"""Busy seconds by engine (`MME`, `TPC`, `DMA`, `NIC`), or one figure: seconds in which all of them were busy."""


@dataclass(frozen=True)
class Temperatures:
    """Degrees Celsius."""

    chip: float
    board: float


def energy_joules(power: PowerSpec, busy_seconds: Busy, total_seconds: float) -> float:
    """Energy of `total_seconds` of modelled time, in joules; an engine is busy for at most all of it."""
    return power.idle_w * total_seconds + _range(power) * _loaded_seconds(power, busy_seconds, total_seconds)


def power_watts(power: PowerSpec, busy_seconds: Busy, total_seconds: float) -> float:
    """Mean power over `total_seconds` of modelled time, in watts; idle power where there is no time."""
    if total_seconds <= 0:
        return power.idle_w
    return energy_joules(power, busy_seconds, total_seconds) / total_seconds


def temperatures(power: PowerSpec, watts: float) -> Temperatures:
    """Steady temperatures at that power."""
    load = (watts - power.idle_w) / _range(power) if _range(power) > 0 else 0.0
    return Temperatures(
        chip=power.chip_idle_c + load * (power.chip_limit_c - power.chip_idle_c),
        board=power.board_idle_c + load * (power.board_limit_c - power.board_idle_c),
    )


def busy_seconds(report: Mapping[str, Any]) -> Busy:
    """What a card's report says of its engines: by engine where it has that, else the card as a whole."""
    engines: Busy | None = report.get("engines")
    return engines if engines is not None else report["utilization"] * report["time"]["total"]


def _range(power: PowerSpec) -> float:
    return max(0.0, power.limit_w - power.idle_w)


def _loaded_seconds(power: PowerSpec, busy: Busy, total: float) -> float:
    """Seconds at the limit that would take the same energy above idle."""
    if isinstance(busy, Mapping):
        return sum(share * min(busy.get(engine, 0.0), total) for engine, share in power.engine_shares.items())
    return min(busy, total)
