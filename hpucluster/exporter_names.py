"""The metrics of the Gaudi Prometheus exporter that have a meaning for an emulated card, under the exporter's
names.

Names and labels as the exporter's documentation lists them (Prometheus_Metric_Exporter, port 41611): gauges
beginning with `habanalabs_`, and its `accelerator_` aliases. Left out, rather than invented, is what nothing
here models: temperatures, power drawn and energy, PCIe traffic, ECC and row replacement, the state of NIC
ports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .identity import CardIdentity
from .snapshots import Snapshot, SnapshotBoard

_LABELS = (
    "Serial",
    "UUID",
    "device",
    "id",
    "fit",
    "spi",
    "driver",
    "pod_namespace",
    "pod_name",
    "rank",
    "card",
)

Reading = Callable[[CardIdentity, Snapshot | None], float]


def _memory_used(_card: CardIdentity, snapshot: Snapshot | None) -> float:
    return snapshot["memory"]["in_use"] if snapshot else 0


def _memory_total(card: CardIdentity, _snapshot: Snapshot | None) -> float:
    return card.spec.hbm.capacity_bytes


def _memory_free(card: CardIdentity, snapshot: Snapshot | None) -> float:
    return _memory_total(card, snapshot) - _memory_used(card, snapshot)


def _utilization(_card: CardIdentity, snapshot: Snapshot | None) -> float:
    return 100.0 * snapshot["utilization"] if snapshot else 0.0


def _clock_mhz(card: CardIdentity, _snapshot: Snapshot | None) -> float:
    return card.spec.tpc.clock_hz / 1e6


def _clock_hertz(card: CardIdentity, _snapshot: Snapshot | None) -> float:
    return card.spec.tpc.clock_hz


def _power_limit(card: CardIdentity, _snapshot: Snapshot | None) -> float:
    return 1000.0 * card.spec.power.limit_w


_READINGS: list[tuple[str, str, Reading]] = [
    ("habanalabs_memory_total_bytes", "Card memory.", _memory_total),
    ("habanalabs_memory_used_bytes", "Card memory in use.", _memory_used),
    ("habanalabs_memory_free_bytes", "Card memory not in use.", _memory_free),
    (
        "habanalabs_utilization",
        "Share of the modelled time in which the card computed, in percent.",
        _utilization,
    ),
    ("habanalabs_clock_soc_max_mhz", "Largest clock of the card, in MHz.", _clock_mhz),
    ("habanalabs_clock_soc_mhz", "Clock of the card, in MHz; the model does not throttle it.", _clock_mhz),
    ("habanalabs_power_default_limit_mW", "Power limit of the card, in milliwatts.", _power_limit),
    ("accelerator_memory_total_bytes", "Alias of habanalabs_memory_total_bytes.", _memory_total),
    ("accelerator_memory_used_bytes", "Alias of habanalabs_memory_used_bytes.", _memory_used),
    ("accelerator_gpu_utilization", "Alias of habanalabs_utilization.", _utilization),
    ("accelerator_sm_clock_hertz", "Alias of habanalabs_clock_soc_mhz, in Hz.", _clock_hertz),
]


class ExporterCollector(Collector):
    """The exporter's gauges for all cards of a job."""

    def __init__(self, identities: Iterable[CardIdentity], board: SnapshotBoard) -> None:
        self._identities = list(identities)
        self._board = board

    def collect(self) -> Iterator[Metric]:
        """The metric families, from one look at the latest snapshots."""
        cards = [(identity, self._board.get(identity.rank)) for identity in self._identities]
        for name, text, read in _READINGS:
            gauge = GaugeMetricFamily(name, text, labels=_LABELS)
            for identity, snapshot in cards:
                gauge.add_metric(_values(identity), read(identity, snapshot))
            yield gauge


def _values(card: CardIdentity) -> list[str]:
    """Label values, the same from the first scrape to the last. Firmware and pods do not exist here."""
    place = [card.serial, card.uuid, card.device, str(card.module)]
    return [*place, "", "", card.software, "", "", str(card.rank), card.spec.name]
