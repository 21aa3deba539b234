"""One call of `hl-smi` once its options are read: looks at the cards and prints, once or again and again."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from device.board import Firmware, firmware_of
from device.card_records import folders, held_cards
from device.environment import software_version
from device.errors import ConfigurationError

from ..messages import UserError
from . import details, ports, query, table, topology
from .box import Aip, attached


@dataclass(frozen=True)
class Request:
    """What the user asked for on the command line."""

    version: bool = False
    list_aips: bool = False
    query: bool = False
    display: str | None = None
    query_aip: str | None = None
    format: str | None = None
    device: str | None = None
    loop: str | None = None
    nic: str | None = None
    ports: str | None = None
    fw_versions: bool = False
    reset_aip: bool = False
    power_max: str | None = None
    debug: bool = False
    topology: bool = False
    cpu_affinity: bool = False
    numa_affinity: bool = False


def run(request: Request) -> None:
    """Print what was asked for. Raises UserError."""
    _check(request)
    seconds = None if request.loop is None else _seconds(request.loop)
    if request.debug:
        for folder in folders():
            print(f"hl-smi: cards are read from {folder}", file=sys.stderr)
    while True:
        try:
            text = _answer(request)
        except ConfigurationError as error:
            raise UserError(str(error)) from error
        print(text, flush=True)
        if seconds is None:
            return
        time.sleep(seconds)


def _check(request: Request) -> None:
    if request.display is not None and not (request.query or request.list_aips):
        raise UserError(f"-d/--display {request.display}: only with -q; use -q -d {request.display}")
    if request.format is not None and request.query_aip is None:
        raise UserError(f"-f/--format {request.format}: only with -Q; name fields, such as -Q index,name,memory.used")
    if request.ports is not None and request.nic is None:
        raise UserError(f"-P {request.ports}: only with -n; use -n link -P {request.ports}")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 1e6:
        raise UserError(f"-l/--loop {text}: give the seconds between two reports, from 0.1 to 1000000; default 5")
    return seconds


def _answer(request: Request) -> str:
    firmware = firmware_of(software_version())
    if request.version:
        return f"Habanalabs hl-smi/hlml version {firmware.tool} (emulated)"
    every = attached(held_cards())
    aips = every if request.device is None else [_find(every, request.device)]
    if not aips:
        raise UserError("no card is visible (HABANA_VISIBLE_DEVICES=none); name cards, or use 'all'")
    if request.reset_aip:
        raise UserError("-r/--reset-aip: an emulated card needs no reset; end the process that holds it, see hl-smi -q")
    if request.power_max is not None:
        raise UserError(
            f"-p/--power-max {request.power_max}: an emulated card keeps its limit,"
            f" {aips[0].kind.power.limit_w:.0f} W; set limit_w in a card file of yours and name it by HPUCLUSTER_CARD"
        )
    return _report(request, aips, len(every), firmware)


def _report(request: Request, aips: list[Aip], attached_aips: int, firmware: Firmware) -> str:
    if request.topology:
        both = not request.cpu_affinity and not request.numa_affinity
        return topology.affinity(aips, both or request.cpu_affinity, both or request.numa_affinity)
    if request.list_aips or request.query:
        return details.details(aips, attached_aips, firmware, _displays(request.display))
    if request.query_aip is not None:
        form = query.parse_format(request.format or "csv")
        return query.values(aips, firmware, query.parse_fields(request.query_aip), form)
    if request.nic is not None:
        chosen = None if request.ports is None else ports.parse_ports(request.ports)
        told = [(aip, ports.describe(aip, request.nic, chosen)) for aip in aips]
        if len(told) == 1:
            return told[0][1]
        return "\n".join(f"[{aip.index}] AIP ({aip.device}) {aip.bus_id}\n{text}" for aip, text in told)
    if request.fw_versions:
        return details.firmware_versions(aips, firmware)
    return table.summary(aips, firmware)


def _displays(text: str | None) -> tuple[str, ...]:
    if text is None:
        return details.ALL_DISPLAYS
    names = tuple(part.strip().upper() for part in text.split(","))
    for name in names:
        if name not in details.ALL_DISPLAYS:
            raise UserError(f"-d/--display: unknown type {name!r}; choose from {', '.join(details.ALL_DISPLAYS)}")
    return names


def _find(aips: list[Aip], device: str) -> Aip:
    """The card of that PCI address, with or without its domain, or of that index."""
    wanted = device.strip().lower()
    for aip in aips:
        if wanted in (aip.bus_id, str(aip.index), aip.device):
            return aip
    for aip in aips:
        if wanted == aip.bus_id.partition(":")[2]:
            return aip
    known = ", ".join(f"{aip.index} ({aip.bus_id})" for aip in aips) or "none"
    raise UserError(f"-i/--device {device}: no such card; cards here: {known}")
