"""Console scripts of the tools.

They load what they need while our names are ours: the user's path may have a `device.py` of its own.
"""

from __future__ import annotations

from habana_frameworks import _shield


def habana_metric_exporter() -> None:
    """Console script `habana-metric-exporter`."""
    _shield.load("launcher.metric_exporter").main()


def hl_prof_config() -> None:
    """Console script `hl-prof-config`."""
    _shield.load("launcher.prof_config.command").main()


def hltv() -> None:
    """Console script `hltv`."""
    _shield.load("launcher.hltv").main()


def habana_perf_tool() -> None:
    """Console script `habana_perf_tool`."""
    _shield.load("launcher.perf_tool.command").main()


def hccl_demo() -> None:
    """Console script `hccl_demo`."""
    _shield.load("launcher.hccl_demo.command").main()
