"""A box of cards: how many, which ports join each pair, what a port carries. Read from
`configs/boxes/*.toml`.
"""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from device.errors import ConfigurationError
from device.spec import configs_dir

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


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


def _parse(kind: Any, table: dict[str, Any], where: str) -> Any:
    hints = get_type_hints(kind, globalns=globals())  # our modules may be hidden from sys.modules
    names = [field.name for field in dataclasses.fields(kind)]
    unknown = sorted(set(table) - set(names))
    if unknown:
        raise ConfigurationError(f"{where}: unknown key {unknown[0]!r}; known keys: {', '.join(names)}")
    values: dict[str, Any] = {}
    for name in names:
        if name not in table:
            raise ConfigurationError(f"{where}: key {name!r} is missing")
        wanted, value = hints[name], table[name]
        if dataclasses.is_dataclass(wanted):
            if not isinstance(value, dict):
                raise ConfigurationError(f"{where}: [{name}] must be a table; got {value!r}")
            values[name] = _parse(wanted, value, f"{where}: [{name}]")
            continue
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise ConfigurationError(f"{where}: {name} must be {wanted.__name__}; got {value!r}")
        if wanted in (int, float) and value < 0:
            raise ConfigurationError(f"{where}: {name} must not be negative; got {value!r}")
        values[name] = value
    return kind(**values)


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
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise ConfigurationError(f"box file {path} cannot be read: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"box file {path} is not valid TOML: {error}") from error
    box: BoxSpec = _parse(BoxSpec, table, str(path))
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
