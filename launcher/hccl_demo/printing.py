"""What `hccl_demo` prints of its measurements, character by character as the real program does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .settings import Settings

COLUMN = 18


@dataclass(frozen=True)
class Figures:
    """One measured size. `host_s` and `device_s` are modelled seconds per iteration, `factor` that of the network
    bandwidth.
    """

    call: str
    size: int
    factor: float
    host_s: float
    device_s: float

    @property
    def algorithm_bw(self) -> float:
        """Input bytes per second."""
        return self.size / self.host_s

    @property
    def network_bw(self) -> float:
        return self.algorithm_bw * self.factor


def bandwidth(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.6f} GB/s"


def duration(seconds: float) -> str:
    return f"{seconds * 1e3:.6f} ms"


def benchmark_block(settings: Settings, figures: Figures) -> str:
    """The result of one size."""
    title = (
        f"{figures.call}(dataSize={figures.size}, count={figures.size // settings.item_bytes}, "
        f"dtype={settings.data_type}, iterations={settings.loop})"
    )
    rule = "#" * len(f"[BENCHMARK] {title}")
    if settings.measure == "bw":
        results = (
            ("NW Bandwidth   ", bandwidth(figures.network_bw)),
            ("Algo Bandwidth ", bandwidth(figures.algorithm_bw)),
        )
    else:
        results = (("Host Latency   ", duration(figures.host_s)), ("Device Latency ", duration(figures.device_s)))
    lines = [rule, f"[BENCHMARK] {title}", *(f"[BENCHMARK]     {name}: {value}" for name, value in results), rule]
    return "\n".join(lines) + "\n"


def pairs_line(settings: Settings) -> str:
    """What stands before the messages of `--ranks_list`."""
    listed = ",".join(f"{sender},{receiver}" for sender, receiver in settings.ranks_list)
    return f"Will perform ranks send_recv test with list: {listed}\n"


def processing_line(figures: Figures) -> str:
    """What stands for the block while a range of sizes runs."""
    return f"Processing data_size {figures.size}\n"


def summary(settings: Settings, rows: Sequence[Figures]) -> str:
    """The closing table of a range of sizes."""
    title = f"(src!=dst, collective={settings.test}, iterations={settings.loop})"
    header, units = ["size", "count", "type", "redop"], ["(B)", "(elements)", "", ""]
    if settings.measure == "bw":
        name = "[BANDWIDTH SUMMARY REPORT]"
        header += ["time", "algoBW", "nw_bw"]
        units += ["(ms)", "(GB/s)", "(GB/s)"]
    else:
        name = "[LATENCY SUMMARY REPORT]"
        header += ["Host Latency", "Device Latency"]
        units += ["(ms)", "(ms)"]
    lines = ["", "#" * (len(title) + 1), name, title, "", _row(header), _row(units)]
    for figures in rows:
        cells = [str(figures.size), str(figures.size // settings.item_bytes), settings.data_type, settings.reduction_op]
        cells.append(duration(figures.host_s))
        if settings.measure == "bw":
            cells += [bandwidth(figures.algorithm_bw), bandwidth(figures.network_bw)]
        else:
            cells.append(duration(figures.device_s))
        lines.append(_row(cells))
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "".join(cell.ljust(COLUMN) for cell in cells)


def csv_row(settings: Settings, rank: int, figures: Figures) -> str:
    """One line of `--result_csv`."""
    if settings.measure == "bw":
        results = (bandwidth(figures.network_bw), bandwidth(figures.algorithm_bw))
    else:
        results = (duration(figures.host_s), duration(figures.device_s))
    cells = (settings.test, rank, settings.data_type, figures.size, settings.loop, *results)
    return ",".join(map(str, cells)) + "\n"
