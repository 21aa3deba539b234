"""`-L` and `-q`: all that is known of each card, in sections that `-d` chooses from.

Labels and places as in public logs of the real tool. Two sections are the emulator's own: UTILIZATION and PROCESSES.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from device.board import Firmware

from .box import MIB, Aip
from .ports import ports_of
from .query import TIME_FORMAT
from .table import has_nic_driver

Line = tuple[int, str, object]
"""Level of a line, its label, its value; None where the label heads what follows."""

ALL_DISPLAYS = (
    "PRODUCT",
    "BUS",
    "FAN",
    "MEMORY",
    "TEMPERATURE",
    "POWER",
    "CLOCK",
    "NET",
    "ROW_REPLACEMENT",
    "UTILIZATION",
    "PROCESSES",
)


def details(aips: list[Aip], attached: int, firmware: Firmware, displays: tuple[str, ...] = ALL_DISPLAYS) -> str:
    """The log of these cards, of `attached` in all, with the chosen sections."""
    lines = [
        "",
        "================ HL-SMI LOG ================",
        "",
        f"{'Timestamp':<40}: {time.strftime(TIME_FORMAT)}",
        f"{'Driver Version':<40}: {firmware.driver}",
        *([f"{'Nic Driver Version':<40}: {firmware.driver}"] if has_nic_driver(firmware) else []),
        f"{'HL-SMI Version':<40}: {firmware.tool} (emulated)",
        "",
        f"{'Attached AIPs':<40}: {attached}",
        "",
    ]
    for aip in aips:
        lines.append(f"[{aip.index}] AIP ({aip.device}) {aip.bus_id}")
        for display in ALL_DISPLAYS:
            if display in displays:
                lines += [_written(line) for line in _SECTIONS[display](aip, firmware)]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def firmware_versions(aips: list[Aip], firmware: Firmware) -> str:
    """`--fw-versions`: the firmware of each card."""
    lines = []
    for aip in aips:
        lines.append(f"[{aip.index}] AIP ({aip.device}) {aip.bus_id}")
        lines += [_written(line) for line in _firmware(aip, firmware)]
    return "\n".join(lines)


def _written(line: Line) -> str:
    level, label, value = line
    indented = " " * 8 * level + label
    return indented if value is None else f"{indented:<40}: {value}"


def _product(aip: Aip, firmware: Firmware) -> Iterator[Line]:
    yield 1, "Product Name", aip.kind.product
    yield 1, "Model Number", f"EMULATED-{aip.kind.product}"
    yield 1, "Serial Number", aip.serial
    yield 1, "Module status", "Operational"
    yield 1, "Module ID", aip.module
    yield 1, "PCB Assembly Version", "emulated"
    yield 1, "PCB Version", "emulated"
    yield 1, "HL Revision", 1
    yield 1, "AIP UUID", aip.uuid
    yield 1, "AIP Status", "Emulated"
    yield from _firmware(aip, firmware)
    yield 1, "CPLD Version", "0x00000000"


def _firmware(aip: Aip, firmware: Firmware) -> Iterator[Line]:
    chip = aip.board.chip
    yield 1, "Firmware [FIT] Version", firmware.fit(chip)
    yield 1, "Firmware [SPI] Version", firmware.spi(chip)
    yield 1, "Firmware [UBOOT] Version", firmware.uboot(chip)
    yield 1, "Firmware [OS] Version", firmware.os(chip)


def _bus(aip: Aip, _firmware: Firmware) -> Iterator[Line]:
    pci = aip.board.pci
    domain, bus, rest = aip.bus_id.split(":")
    yield 1, "PCI", None
    yield 2, "Bus", f"0x{bus}"
    yield 2, "Device", f"0x{rest.partition('.')[0]}"
    yield 2, "Domain", f"0x{domain}"
    yield 2, "Rev", "01"
    yield 2, "Device Id", pci.device_id
    yield 2, "Bus Id", aip.bus_id
    yield 2, "Sub System Id", pci.device_id
    yield 2, "AIP Link Info", None
    yield 3, "Link Speed", None
    yield 4, "Max", f"{pci.link_gt_per_s:g}GT/s"
    yield 4, "Current", f"{pci.link_gt_per_s:g}GT/s"
    yield 3, "Link Width", None
    yield 4, "Max", f"x{pci.link_width}"
    yield 4, "Current", f"x{pci.link_width}"


def _fan(_aip: Aip, _firmware: Firmware) -> Iterator[Line]:
    yield 1, "Fan Speed", "N/A"


def _memory(aip: Aip, _firmware: Firmware) -> Iterator[Line]:
    yield 1, "Memory Type", "HBM"
    yield 1, "Memory Usage", None
    yield 2, "Total", f"{aip.memory_total} MB"
    yield 2, "Used", f"{aip.memory_used} MB"
    yield 2, "Free", f"{aip.memory_free} MB"


def _temperature(aip: Aip, _firmware: Firmware) -> Iterator[Line]:
    heat, power = aip.temperatures, aip.kind.power
    yield 1, "Temperature", None
    yield 2, "[ 1] On Chip", f" {heat.chip:.0f} C"
    yield 2, "[ 2] On Board", f" {heat.board:.0f} C"
    yield 1, "Temperature Thresholds", None
    yield 2, "Slowdown", f" {power.threshold_slowdown_c:.0f} C"
    yield 2, "Shutdown", f" {power.threshold_shutdown_c:.0f} C"


def _power(aip: Aip, _firmware: Firmware) -> Iterator[Line]:
    limit = f"{aip.kind.power.limit_w:.0f} W"
    yield 1, "Power Readings", None
    yield 2, "Power Management", "auto"
    yield 2, "Power Draw", f"{aip.watts:.0f} W"
    yield 2, "Power Max", limit
    yield 2, "Power Limit", limit


def _clock(aip: Aip, _firmware: Firmware) -> Iterator[Line]:
    clock = f"{aip.kind.clock_hz / 1e6:.0f} MHz"
    yield 1, "Clocks Throttle Reasons", None
    yield 2, "HW Slowdown", "Not Active"
    yield 3, "Thermal Slowdown", "Not Active"
    yield 3, "Power Slowdown", "Not Active"
    for heading in ("Clocks", "Clocks Max"):
        yield 1, heading, None
        yield 2, "[1] soc", clock
    yield 1, "Clocks Limit", None
    yield 2, "[1] soc", clock
    yield 2, "[2] tpc", clock


def _net(aip: Aip, _firmware: Firmware) -> Iterator[Line]:
    yield 1, "Network Information", None
    for port in range(ports_of(aip).count):
        # 02: an address of local meaning, which no maker gives.
        yield 2, f"[{port + 1:>2}] MAC", f"02:48:4c:{aip.box % 256:02x}:{aip.module % 256:02x}:{port:02x}"


def _rows(_aip: Aip, _firmware: Firmware) -> Iterator[Line]:
    yield 1, "Replaced Rows", None
    yield 2, "Single Bit ECC", 0
    yield 2, "Double Bit ECC", 0
    yield 2, "Pending", "No"


def _utilization(aip: Aip, _firmware: Firmware) -> Iterator[Line]:
    yield 1, "Utilization", None
    yield 2, "AIP", f"{aip.utilization} %"


def _processes(aip: Aip, _firmware: Firmware) -> Iterator[Line]:
    yield 1, "Compute Processes", None if aip.holders else "None"
    for record in aip.holders:
        yield 2, "Process ID", record.process.pid
        yield 3, "Name", record.command
        yield 3, "User", record.user
        yield 3, "Rank", f"{record.rank} of {record.world_size}"
        yield 3, "Job", record.job or "N/A"
        yield 3, "Started", time.strftime(TIME_FORMAT, time.localtime(record.started))
        yield 3, "Updated", time.strftime(TIME_FORMAT, time.localtime(record.updated))
        yield 3, "Memory Pool", f"{record.memory.limit // MIB} MB"
        yield 3, "Allocated", f"{record.memory.in_use // MIB} MB"
        yield 3, "Peak", f"{record.memory.peak // MIB} MB"
        yield 3, "Steps", record.steps
        yield 3, "Modelled Time", f"{record.modelled_s:.6f} s"
        yield 3, "Modelled Energy", f"{record.energy_j:.3f} J"


_SECTIONS: dict[str, Callable[[Aip, Firmware], Iterator[Line]]] = {
    "PRODUCT": _product,
    "BUS": _bus,
    "FAN": _fan,
    "MEMORY": _memory,
    "TEMPERATURE": _temperature,
    "POWER": _power,
    "CLOCK": _clock,
    "NET": _net,
    "ROW_REPLACEMENT": _rows,
    "UTILIZATION": _utilization,
    "PROCESSES": _processes,
}
