"""How busy the card was in a part of a run, in modelled time. A name of releases from 1.20 on."""

from __future__ import annotations

from typing import Any, NamedTuple

from device.backend import runtime

__all__ = ["HWUtilizationMetrics", "Usage"]

_ENGINES = ("MME", "TPC")


class Usage(NamedTuple):
    """Percent of the time, to 2 digits.

    `hl_smi`: in which the card ran a graph, as hl-smi shows it. `esync`: in which its busier compute engine, MME or
    TPC, was busy.
    """

    hl_smi: float
    esync: float


class HWUtilizationMetrics:
    """Measures between `start` and `stop`; `resume` goes on after a stop, and adds."""

    def __init__(self) -> None:
        self._begin: dict[str, float] | None = None
        self._sums: dict[str, float] = {}

    def start(self) -> None:
        """Measure from here on, anew."""
        self._sums = {}
        self.resume()

    def resume(self) -> None:
        """Measure from here on, in addition to what was measured before."""
        self._begin = _seconds()

    def stop(self) -> None:
        """Measure no more.

        Raises:
            RuntimeError: nothing is being measured.
        """
        if self._begin is None:
            raise RuntimeError("nothing is being measured; call start() or resume() first")
        for name, value in _seconds().items():
            self._sums[name] = self._sums.get(name, 0.0) + value - self._begin[name]
        self._begin = None

    def get_usage(self) -> Usage:
        """What was measured so far.

        Raises:
            RuntimeError: nothing was measured.
        """
        sums = dict(self._sums)
        if self._begin is not None:
            for name, value in _seconds().items():
                sums[name] = sums.get(name, 0.0) + value - self._begin[name]
        if not sums:
            raise RuntimeError("nothing was measured; call start() first")
        total = sums["total"]
        if total <= 0:
            return Usage(0.0, 0.0)
        busiest = max(sums[engine] for engine in _ENGINES)
        return Usage(round(100 * sums["device"] / total, 2), round(100 * busiest / total, 2))

    def display_usage(self) -> None:
        """Print what was measured so far."""
        usage = self.get_usage()
        print(f"HPU utilization: hl-smi {usage.hl_smi:.2f} %, esync {usage.esync:.2f} %")


def _seconds() -> dict[str, float]:
    card = runtime.card()
    card.flush_and_wait("utilization")
    figures: dict[str, Any] = card.figures()
    return {
        "total": figures["time"]["total"],
        "device": figures["time"]["device"],
        **{engine: figures["engines"][engine] for engine in _ENGINES},
    }
