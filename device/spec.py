"""Card descriptions, read from `configs/cards/*.toml`. Every hardware figure of the project stands there."""

from __future__ import annotations

import dataclasses
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from .errors import ConfigurationError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CARDS = ("gaudi", "gaudi2", "gaudi3")


@dataclass(frozen=True)
class MmeSpec:
    """Matrix engines. Peaks in operations per second by dtype; efficiencies as share of the peak."""

    count: int
    peak_flops: dict[str, float]
    gemm_efficiency: float
    convolution_efficiency: float


@dataclass(frozen=True)
class TpcSpec:
    """Vector engines: `count` cores of `lanes_bytes` per cycle at `clock_hz`."""

    count: int
    lanes_bytes: int
    clock_hz: float


@dataclass(frozen=True)
class HbmSpec:
    """Card memory: `pool_bytes` of `capacity_bytes` are the process's pool; bandwidth in bytes per second."""

    capacity_bytes: int
    pool_bytes: int
    bandwidth_bytes_per_s: float
    efficiency: float


@dataclass(frozen=True)
class SramSpec:
    """On-chip memory in bytes."""

    capacity_bytes: int


@dataclass(frozen=True)
class PcieSpec:
    """Host link: bytes per second one way, seconds per transfer."""

    bandwidth_bytes_per_s: float
    latency_s: float


@dataclass(frozen=True)
class HostSpec:
    """What the host's software costs, in seconds: recording an operator, launching one eagerly, launching a recipe."""

    record_s: float
    eager_launch_s: float
    launch_s: float


@dataclass(frozen=True)
class DeviceSpec:
    """Seconds to start and drain one engine node."""

    kernel_s: float


@dataclass(frozen=True)
class CompileSpec:
    """Seconds of one graph compilation: `base_s` + nodes x `node_s`; `eager_s` for one eager operator."""

    base_s: float
    node_s: float
    eager_s: float


@dataclass(frozen=True)
class PowerSpec:
    """Power limit in watts."""

    limit_w: float


@dataclass(frozen=True)
class DtypeSpec:
    """Dtypes that this generation does not have."""

    refused: list[str]


@dataclass(frozen=True)
class CardSpec:
    """One kind of card."""

    name: str
    device_name: str
    device_type: str
    product: str
    box: str
    mme: MmeSpec
    tpc: TpcSpec
    hbm: HbmSpec
    sram: SramSpec
    pcie: PcieSpec
    host: HostSpec
    device: DeviceSpec
    compile: CompileSpec
    power: PowerSpec
    dtypes: DtypeSpec


def configs_dir() -> Path:
    """Folder of the card, box and fabric descriptions."""
    return Path(__file__).resolve().parent.parent / "configs"


def _parse(kind: type, table: dict[str, Any], where: str) -> Any:
    hints = get_type_hints(kind, globals())  # named: the module itself may be hidden by then
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
            values[name] = _parse(wanted, value, f"{where}: [{name}]")  # type: ignore[arg-type]
            continue
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if wanted in (int, float, str) and (not isinstance(value, wanted) or isinstance(value, bool)):
            raise ConfigurationError(f"{where}: {name} must be {wanted.__name__}; got {value!r}")
        if wanted in (int, float) and value < 0:
            raise ConfigurationError(f"{where}: {name} must not be negative; got {value!r}")
        values[name] = value
    return kind(**values)


def load_card(name: str) -> CardSpec:
    """The description of a card: `gaudi`, `gaudi2`, `gaudi3`, or the path of a file of that form.

    Raises:
        ConfigurationError: unknown card, unreadable file, unknown, missing or bad key (named).
    """
    if name in CARDS:
        path = configs_dir() / "cards" / f"{name}.toml"
    elif name.endswith(".toml"):
        path = Path(name)
    else:
        raise ConfigurationError(
            f"unknown card {name!r}; choose one of {', '.join(CARDS)}, or the path of a card file (.toml)"
        )
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise ConfigurationError(f"card file {path} cannot be read: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"card file {path} is not valid TOML: {error}") from error
    return _parse(CardSpec, table, str(path))


def chosen_card() -> CardSpec:
    """The card of this process: HPUCLUSTER_CARD, default gaudi2."""
    return load_card(os.environ.get("HPUCLUSTER_CARD") or "gaudi2")
