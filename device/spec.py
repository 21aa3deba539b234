"""Card descriptions, read from `configs/cards/*.toml`. Every hardware figure stands there, with its source.

A file describes a card whole, or says `based_on = "gaudi3"` (or the path of another card file) and only what differs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .description import (
    Bandwidth,
    Count,
    Delay,
    Flops,
    Fraction,
    Frequency,
    Positive,
    Share,
    Size,
    configs_dir,
    merged,
    parse_table,
    read_table,
)
from .errors import ConfigurationError

CARDS = ("gaudi", "gaudi2", "gaudi3")
MME_DTYPES = ("bfloat16", "float16", "float8", "float32")
ENGINES = ("MME", "TPC", "DMA", "NIC")
REFUSABLE = ("float16", "float8_e4m3fn", "float8_e5m2")  # what one generation has and another has not


@dataclass(frozen=True)
class MmeSpec:
    """Matrix engines. Tables by dtype have an entry for each of `peak_flops`.

    `count` arrays of `rows` x `columns` multiply-accumulate units at `clock_hz`; `peak_flops` operations per second
    of all together; `tile` side of the square of results that one array makes at once, in elements; efficiencies as
    shares of the peak on full tiles; `exposed_load` share of the time to read the larger factor that no computation
    hides; a product that takes longer than `burst_s` goes on at `sustained_share` of its rate.
    """

    count: Count
    rows: Count
    columns: Count
    clock_hz: Frequency
    peak_flops: dict[str, Flops]
    tile: dict[str, Count]
    gemm_efficiency: dict[str, Share]
    convolution_efficiency: dict[str, Share]
    exposed_load: dict[str, Fraction]
    burst_s: Positive
    sustained_share: dict[str, Share]


@dataclass(frozen=True)
class TpcSpec:
    """Vector engines: `count` cores, each working on `lanes_bytes` per cycle at `clock_hz`."""

    count: Count
    lanes_bytes: Count
    clock_hz: Frequency


@dataclass(frozen=True)
class HbmSpec:
    """Card memory: `pool_bytes` of `capacity_bytes` are the process's pool; `bandwidth_bytes_per_s` of all stacks, of
    which streams get the share `efficiency`; a random access moves whole granules of `granule_bytes`.
    """

    stacks: Count
    capacity_bytes: Size
    pool_bytes: Size
    bandwidth_bytes_per_s: Bandwidth
    efficiency: Share
    granule_bytes: Count


@dataclass(frozen=True)
class SramSpec:
    """On-chip memory: bytes, and bytes per second to the engines."""

    capacity_bytes: Size
    bandwidth_bytes_per_s: Bandwidth


@dataclass(frozen=True)
class PcieSpec:
    """Host link: generation and lanes; payload bytes per second one way; seconds per transfer."""

    generation: Count
    lanes: Count
    bandwidth_bytes_per_s: Bandwidth
    latency_s: Delay


@dataclass(frozen=True)
class NicSpec:
    """RoCE ports of the card: `ports` in all, of which `scale_up` lead to cards of the box and `scale_out` outwards;
    `line_rate_bytes_per_s` of one port, one way. What collectives make of them stands in `configs/boxes`.
    """

    ports: Count
    scale_up: int
    scale_out: int
    line_rate_bytes_per_s: Bandwidth


@dataclass(frozen=True)
class HostSpec:
    """What the host's software costs, in seconds: recording an operator, launching one eagerly, launching a recipe,
    replaying a captured graph, asking whether something has ended, issuing a collective, and
    what DistributedDataParallel does itself: around a forward pass, and for each gradient.

    `queue_depth`: launches that may wait in the card's queue before the host has to. `staging_bytes_per_s`: the host's
    copy between pageable and pinned memory.
    """

    record_s: Delay
    eager_launch_s: Delay
    launch_s: Delay
    graph_replay_s: Delay
    poll_s: Delay
    collective_s: Delay
    ddp_forward_s: Delay
    ddp_gradient_s: Delay
    queue_depth: Count
    staging_bytes_per_s: Bandwidth


@dataclass(frozen=True)
class DeviceSpec:
    """Seconds on the card: `kernel_s` to start and drain one engine node, `recipe_s` to start and end one recipe."""

    kernel_s: Delay
    recipe_s: Delay


@dataclass(frozen=True)
class CompileSpec:
    """One graph compilation takes `base_s`, `operator_s` for each operator, and for each tensor `split_s` times
    log2(1 + its bytes / `slice_bytes`). `eager_s`: one operator of eager mode.
    """

    base_s: float
    operator_s: float
    split_s: float
    slice_bytes: Count
    eager_s: float


@dataclass(frozen=True)
class PowerSpec:
    """Power in watts, at its limit and idle; temperatures in degrees Celsius. The model is in `device/power.py`.

    `engine_shares`: of the range between idle and limit, what each kind of engine (MME, TPC, DMA, NIC) draws when
    busy; they add up to 1. The thresholds are what the management tools tell, nothing here throttles.
    """

    limit_w: Positive
    idle_w: float
    engine_shares: dict[str, Fraction]
    chip_idle_c: float
    chip_limit_c: float
    board_idle_c: float
    board_limit_c: float
    threshold_gpu_c: float
    threshold_memory_c: float
    threshold_slowdown_c: float
    threshold_shutdown_c: float


@dataclass(frozen=True)
class DtypeSpec:
    """Dtypes that this generation does not have, by their names in torch, and how far one reaches that differs:
    `e4m3_largest`, the largest number that a conversion to float8_e4m3fn gives.
    """

    refused: list[str]
    e4m3_largest: Positive


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
    nic: NicSpec
    host: HostSpec
    device: DeviceSpec
    compile: CompileSpec
    power: PowerSpec
    dtypes: DtypeSpec


def load_card(name: str) -> CardSpec:
    """The description of a card: `gaudi`, `gaudi2`, `gaudi3`, or the path of a file of that form.

    Raises:
        ConfigurationError: unknown card, unreadable file, unknown, missing or bad key (named with file, table and
        value).
    """
    path = _card_path(name, Path())
    table = _whole_table(path, ())
    card: CardSpec = parse_table(CardSpec, table, str(path))
    _check(card, str(path))
    return card


def chosen_card() -> CardSpec:
    """The card of this process: HPUCLUSTER_CARD, default gaudi2."""
    return load_card(os.environ.get("HPUCLUSTER_CARD") or "gaudi2")


def _card_path(name: str, folder: Path) -> Path:
    """The file of a card that is named or given by path; relative paths start at `folder`."""
    if name in CARDS:
        return configs_dir() / "cards" / f"{name}.toml"
    if name.endswith(".toml") and "\0" not in name:
        return folder / name
    raise ConfigurationError(
        f"unknown card {name!r}; choose one of {', '.join(CARDS)}, or the path of a card file (.toml)"
    )


def _whole_table(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    """The table of a card file, filled from the card that it is based on."""
    table = read_table(path, "card")
    if "based_on" not in table:
        return table
    base = table.pop("based_on")
    if not isinstance(base, str):
        raise ConfigurationError(
            f"{path}: based_on must be the name of a card ({', '.join(CARDS)}) or the path of a card file; got {base!r}"
        )
    seen = (*seen, path.resolve())
    try:
        base_path = _card_path(base, path.parent)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: based_on: {error}") from None
    if base_path.resolve() in seen:
        raise ConfigurationError(f"{path}: based_on = {base!r} goes round in a circle; name a card that stands alone")
    return merged(_whole_table(base_path, seen), {"name": path.stem, **table})


def _check(card: CardSpec, where: str) -> None:
    """What one key alone cannot show to be wrong."""
    peaks = card.mme.peak_flops
    for name in ("tile", "gemm_efficiency", "convolution_efficiency", "exposed_load"):
        for dtype in getattr(card.mme, name):
            if dtype not in peaks:
                raise ConfigurationError(
                    f"{where}: [mme] {name} has {dtype!r}, which peak_flops does not; known there: {', '.join(peaks)}"
                )
        for dtype in peaks:
            if dtype not in getattr(card.mme, name):
                raise ConfigurationError(f"{where}: [mme] {name} lacks {dtype!r}, which peak_flops has: add it")
    for dtype in peaks:
        if dtype not in MME_DTYPES:
            raise ConfigurationError(
                f"{where}: [mme] peak_flops has unknown dtype {dtype!r} = {peaks[dtype]!r}; "
                f"known: {', '.join(MME_DTYPES)}"
            )
    for dtype in ("bfloat16", "float32"):
        if dtype not in peaks:
            raise ConfigurationError(f"{where}: [mme] peak_flops lacks {dtype!r}: add it")
    for inner, value, outer, limit in (
        ("[hbm] pool_bytes", card.hbm.pool_bytes, "[hbm] capacity_bytes", card.hbm.capacity_bytes),
        ("[power] idle_w", card.power.idle_w, "[power] limit_w", card.power.limit_w),
        ("[nic] scale_up + scale_out", card.nic.scale_up + card.nic.scale_out, "[nic] ports", card.nic.ports),
    ):
        if value > limit:
            raise ConfigurationError(f"{where}: {inner} is {value!r}, more than {outer}, {limit!r}; lower the first")
    shares = card.power.engine_shares
    if sorted(shares) != sorted(ENGINES) or abs(sum(shares.values()) - 1) > 1e-6:
        raise ConfigurationError(
            f"{where}: [power] engine_shares is {shares!r}; give {', '.join(ENGINES)}, which add up to 1"
        )
    for dtype in card.dtypes.refused:
        if dtype not in REFUSABLE:
            raise ConfigurationError(
                f"{where}: [dtypes] refused has {dtype!r}; a card can lack {', '.join(REFUSABLE)}, nothing else"
            )
