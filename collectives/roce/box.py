"""A box of cards: how many, which ports join each pair, what a port carries. Read from
`configs/boxes/*.toml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from device.description import configs_dir, parse_table, read_table
from device.errors import ConfigurationError


@dataclass(frozen=True)
class PortSpec:
    """RoCE ports of one card. `line_rate_bytes_per_s` is one port, one way."""

    line_rate_bytes_per_s: float
    per_pair: int
    scale_out: int


@dataclass(frozen=True)
class RoceSpec:
    """`efficiency` is the share of the line rate that payload gets; `phase_latency_s` the fixed time of one
    phase.
    """

    efficiency: float
    mtu_bytes: int
    phase_latency_s: float


@dataclass(frozen=True)
class HcclSpec:
    """Choices of the communication library: slice of a pipelined transfer, size from which broadcast takes
    two phases.
    """

    slice_bytes: int
    broadcast_two_phase_bytes: int


@dataclass(frozen=True)
class BoxSpec:
    """One kind of box: `cards` cards in a full mesh."""

    name: str
    card: str
    cards: int
    ports: PortSpec
    roce: RoceSpec
    hccl: HcclSpec

    @property
    def pair_rate(self) -> float:
        """Bytes per second, one way, between two cards of the box: ports x line rate x efficiency."""
        return self.ports.per_pair * self.ports.line_rate_bytes_per_s * self.roce.efficiency

    @property
    def scale_out_rate(self) -> float:
        """Bytes per second, one way, that one card sends out of the box: ports x line rate x efficiency."""
        return self.ports.scale_out * self.ports.line_rate_bytes_per_s * self.roce.efficiency


def load_box(name: str) -> BoxSpec:
    """The description of a box: `hls1`, `hls2`, `hls3`, or the path of a file of that form.

    Raises:
        ConfigurationError: unknown box, unreadable file, unknown, missing or bad key (named).
    """
    folder = configs_dir() / "boxes"
    path = Path(name) if name.endswith(".toml") else folder / f"{name}.toml"
    if not path.is_file() and not name.endswith(".toml"):
        known = ", ".join(sorted(file.stem for file in folder.glob("*.toml")))
        raise ConfigurationError(f"unknown box {name!r}; choose one of {known}, or the path of a box file (.toml)")
    box: BoxSpec = parse_table(BoxSpec, read_table(path, "box"), str(path))
    for key, value in (
        ("cards", box.cards),
        ("[ports] line_rate_bytes_per_s", box.ports.line_rate_bytes_per_s),
        ("[ports] per_pair", box.ports.per_pair),
        ("[roce] efficiency", box.roce.efficiency),
    ):
        if value <= 0:
            raise ConfigurationError(f"{path}: {key} must be more than 0; got {value!r}")
    if box.roce.efficiency > 1:
        raise ConfigurationError(
            f"{path}: [roce] efficiency is a share of the line rate, at most 1; got {box.roce.efficiency}"
        )
    return box
