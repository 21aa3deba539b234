"""What a card's board tells management tools: PCI address and link, ids, firmware.

Read from `configs/boards/*.toml`, one file per kind of box. None of it takes part in the model of time.
RoCE ports are the box's matter: `configs/boxes/*.toml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from .description import configs_dir, parse_table, read_table

BOARDS = {"hls1": "hls1", "hls1h": "hls1", "hls2": "hls2", "hls3": "hls3"}
"""The project's boxes, and whose board their cards have: those of an HLS-1H are HL-205, as in an HLS-1."""
STANDARD_BOARD = "hls2"


@dataclass(frozen=True)
class PciSpec:
    """`addresses` by module id (domain:bus:device.function); the link in GT/s per lane and lanes."""

    addresses: list[str]
    device_id: str
    link_gt_per_s: float
    link_width: int


@dataclass(frozen=True)
class FirmwareMemorySpec:
    """Card memory in bytes that the firmware keeps to itself, in use also while no process holds the card."""

    firmware_bytes: int


@dataclass(frozen=True)
class BoardSpec:
    """The cards of one kind of box."""

    name: str
    chip: str
    pci: PciSpec
    memory: FirmwareMemorySpec

    def address(self, module: int, box: int = 0) -> str:
        """PCI address of a card; `box` counts emulated boxes of this machine, each a PCI domain of its own."""
        addresses = self.pci.addresses
        # HLS_MODULE_ID may name a slot that a real box does not have.
        address = addresses[module] if module < len(addresses) else f"0000:e0:{module % 32:02x}.0"
        return f"{box:04x}{address[4:]}"


@cache
def load_board(box: str) -> BoardSpec:
    """The board of the cards of a box: one of `BOARDS`. Cards of any other box look as those of an HLS-2.

    Raises:
        ConfigurationError: unreadable file, unknown, missing or bad key (named).
    """
    path = configs_dir() / "boards" / f"{BOARDS.get(box, STANDARD_BOARD)}.toml"
    board: BoardSpec = parse_table(BoardSpec, read_table(path, "board"), str(path))
    return board


@dataclass(frozen=True)
class Firmware:
    """Versions of the emulated software, from its release such as 1.19.0, and how the tools write them."""

    release: str
    firmware: str

    @property
    def tool(self) -> str:
        """Version of hl-smi: `hl-1.18.0-fw-53.1.1.1`."""
        return f"hl-{self.release}-fw-{self.firmware}"

    @property
    def driver(self) -> str:
        """Version of the driver; where a real one has its build's hash, this one says what it is."""
        return f"{self.release}-emulated"

    def _of(self, chip: str) -> str:
        parts = self.firmware.split(".")[:3]
        return f"hl-{chip}-{self.release}-fw-{'.'.join(parts)}-sec-0"

    def fit(self, chip: str) -> str:
        """The Linux that the card's management processor runs."""
        return f"Linux {chip} 5.10.18-{self._of(chip)} (emulated)"

    def spi(self, chip: str) -> str:
        """The first boot stage, in flash memory."""
        return f"Preboot version {self._of(chip)} (emulated)"

    def uboot(self, chip: str) -> str:
        """The second boot stage."""
        return f"U-Boot 2021.04-{self._of(chip)} (emulated)"

    def os(self, chip: str) -> str:
        """The real-time operating system."""
        return f"Zephyr 2.7.2-{self._of(chip)} (emulated)"


def firmware_of(software: str) -> Firmware:
    """The firmware of a release of the software, such as 1.19.0."""
    path = configs_dir() / "boards" / "firmware.toml"
    releases = {_numbers(key): text for key, text in read_table(path, "firmware")["releases"].items()}
    wanted = _numbers(software)
    reached = [release for release in releases if release <= wanted[: len(release)]]
    release = ".".join(str(part) for part in (*wanted, 0, 0)[: max(3, len(wanted))])
    return Firmware(release, releases[max(reached) if reached else min(releases)])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
