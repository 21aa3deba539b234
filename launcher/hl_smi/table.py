"""The summary: two lines for each card, then the processes that hold cards.

A process's usage is what its tensors and workspace hold; the card's is what the driver has given away (`box.py`).
From release 1.20 on the table has the network driver's version and the share of memory in use.
"""

from __future__ import annotations

from collections.abc import Iterator

from device.board import Firmware

from .box import MIB, Aip

FIRST_WITH_NIC_DRIVER = (1, 20)

_EDGE = "+-----------------------------------------------------------------------------+"
_RULE = "|-------------------------------+----------------------+----------------------+"
_HEAVY = "|===============================+======================+======================|"


def has_nic_driver(firmware: Firmware) -> bool:
    """Whether the release's tools tell the network driver's version."""
    return tuple(int(part) for part in firmware.release.split(".")[:2]) >= FIRST_WITH_NIC_DRIVER


def summary(aips: list[Aip], firmware: Firmware) -> str:
    """The table, without a newline at its end."""
    recent = has_nic_driver(firmware)
    lines = [_EDGE, _version("HL-SMI Version:", firmware.tool), _version("Driver Version:", firmware.driver)]
    if recent:
        lines.append(_version("Nic Driver Version:", firmware.driver))
    events = "Volatile Uncor-Events" if recent else "Volatile Uncorr. ECC "
    lines += [
        _RULE,
        f"| AIP  Name        Persistence-M| Bus-Id        Disp.A | {events}|",
        "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | AIP-Util  Compute M. |",
        _HEAVY,
    ]
    for aip in aips:
        lines += [_identity(aip), _state(aip, recent), _RULE]
    lines += [
        "| Compute Processes:                                               AIP Memory |",
        "|  AIP       PID   Type   Process name                             Usage      |",
        "|=============================================================================|",
        *(row for aip in aips for row in _processes(aip)),
        "+=============================================================================+",
    ]
    return "\n".join(lines)


def _version(label: str, version: str) -> str:
    return f"| {label}{version:>{66 - len(label)}}          |"


def _identity(aip: Aip) -> str:
    return f"|{aip.index:>4}  {aip.kind.product:<19} N/A  | {aip.bus_id:<16} N/A |{0:>20}  |"


def _state(aip: Aip, recent: bool) -> str:
    heat, watts, limit = round(aip.temperatures.chip), round(aip.watts), round(aip.kind.power.limit_w)
    if recent:
        share = round(100 * aip.memory_used / aip.memory_total)
        return (
            f"| N/A{heat:>5}C   N/A{watts:>4}W / {limit:>4}W  "
            f"|{aip.memory_used:>6}MiB / {aip.memory_total:>6}MiB "
            f"|{aip.utilization:>6}%{share:>13}% |"
        )
    memory = f"{aip.memory_used}MiB / {aip.memory_total}MiB"
    return f"| N/A{heat:>5}C   N/A{watts:>6}W /{limit:>4}W |{memory:>21} |{aip.utilization:>6}%           N/A |"


def _processes(aip: Aip) -> Iterator[str]:
    if not aip.holders:
        yield _process(aip.index, "N/A", "N/A", "N/A", "N/A")
    for record in aip.holders:
        usage = f"{record.memory.in_use // MIB}MiB"
        yield _process(aip.index, str(record.process.pid), " C", record.command, usage)


def _process(index: int, pid: str, kind: str, name: str, usage: str) -> str:
    return f"|{index:>4}{pid:>11}   {kind:<4}   {_shortened(name, 40):<40} {usage:<10} |"


def _shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
