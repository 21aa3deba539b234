"""Card descriptions, read from `configs/cards/*.toml`. Every hardware figure of the project stands there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .description import configs_dir, parse_table, read_table
from .errors import ConfigurationError

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
    """What the host's software costs, in seconds: recording an operator, launching one eagerly, launching a recipe,
    replaying a captured graph, asking whether something has ended.

    `queue_depth`: launches that may wait in the card's queue before the host has to. `staging_bytes_per_s`: the host's
    copy between pageable and pinned memory.
    """

    record_s: float
    eager_launch_s: float
    launch_s: float
    graph_replay_s: float
    poll_s: float
    queue_depth: int
    staging_bytes_per_s: float


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
    card: CardSpec = parse_table(CardSpec, read_table(path, "card"), str(path), globals())
    return card


def chosen_card() -> CardSpec:
    """The card of this process: HPUCLUSTER_CARD, default gaudi2."""
    return load_card(os.environ.get("HPUCLUSTER_CARD") or "gaudi2")
