"""The metrics of the Gaudi Prometheus exporter, under the exporter's names and with its labels.

Names and labels as the exporter's documentation lists them (Prometheus_Metric_Exporter, port 41611): gauges beginning
with `habanalabs_`, and its `accelerator_` aliases. What they say of an emulated card:

- Memory as the driver sees it: what the firmware keeps, and from the moment a process takes the card, its whole pool.
  What the process has allocated in its pool is `hpucluster_memory_in_use_bytes`.
- Energy, power, temperature, utilization and PCIe throughput are modelled, means over the run so far in modelled time
  (`device/power.py`); `habanalabs_energy` and the PCIe bytes count from the start.
- A RoCE port is up unless the job's network says that its link is down; a link that lost part of its rate is up.
- Nothing breaks here: ECC is on and counts no errors, no rows await replacement, PCIe repeats nothing.

Left out: `kube_info`, as there are no pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from device.power import Temperatures, busy_seconds, energy_joules, power_watts, temperatures

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

MEMORY_CLOCK_HERTZ = 18_000_000
"""The exporter tells this constant for every card."""

Reading = Callable[[CardIdentity, Snapshot | None], float]


def _memory_used(card: CardIdentity, snapshot: Snapshot | None) -> float:
    pool = snapshot["memory"]["limit"] if snapshot else 0
    return min(card.spec.hbm.capacity_bytes, card.board.memory.firmware_bytes + pool)


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


def _energy(card: CardIdentity, snapshot: Snapshot | None) -> float:
    if snapshot is None:
        return 0.0
    return 1000.0 * energy_joules(card.spec.power, busy_seconds(snapshot), snapshot["time"]["total"])


def _watts(card: CardIdentity, snapshot: Snapshot | None) -> float:
    if snapshot is None:
        return card.spec.power.idle_w
    return power_watts(card.spec.power, busy_seconds(snapshot), snapshot["time"]["total"])


def _milliwatts(card: CardIdentity, snapshot: Snapshot | None) -> float:
    return 1000.0 * _watts(card, snapshot)


def _temperatures(card: CardIdentity, snapshot: Snapshot | None) -> Temperatures:
    return temperatures(card.spec.power, _watts(card, snapshot))


def _pcie_bytes(direction: str) -> Reading:
    def read(_card: CardIdentity, snapshot: Snapshot | None) -> float:
        return snapshot["pcie"][direction] if snapshot and "pcie" in snapshot else 0

    return read


def _pcie_kilobytes_per_second(direction: str) -> Reading:
    count = _pcie_bytes(direction)

    def read(card: CardIdentity, snapshot: Snapshot | None) -> float:
        seconds = snapshot["time"]["total"] if snapshot else 0.0
        return count(card, snapshot) / 1024 / seconds if seconds > 0 else 0.0

    return read


def _constant(value: float) -> Reading:
    return lambda _card, _snapshot: value


_READINGS: list[tuple[str, str, Reading]] = [
    ("habanalabs_memory_total_bytes", "Card memory.", _memory_total),
    ("habanalabs_memory_used_bytes", "Card memory that the firmware and the process's pool take.", _memory_used),
    ("habanalabs_memory_free_bytes", "Card memory that neither takes.", _memory_free),
    (
        "habanalabs_utilization",
        "Share of the modelled time in which the card computed, in percent.",
        _utilization,
    ),
    ("habanalabs_clock_soc_max_mhz", "Largest clock of the card, in MHz.", _clock_mhz),
    ("habanalabs_clock_soc_mhz", "Clock of the card, in MHz; the model does not throttle it.", _clock_mhz),
    ("habanalabs_power_default_limit_mW", "Power limit of the card, in milliwatts.", _power_limit),
    ("habanalabs_power_mW", "Modelled power, mean over the run so far, in milliwatts.", _milliwatts),
    ("habanalabs_energy", "Modelled energy since the start of the run, in millijoules.", _energy),
    (
        "habanalabs_temperature_onchip",
        "Modelled temperature of the chip, in degrees Celsius.",
        lambda card, snapshot: _temperatures(card, snapshot).chip,
    ),
    (
        "habanalabs_temperature_onboard",
        "Modelled temperature of the board, in degrees Celsius.",
        lambda card, snapshot: _temperatures(card, snapshot).board,
    ),
    (
        "habanalabs_temperature_threshold_gpu",
        "Highest chip temperature in operation, in degrees Celsius.",
        lambda card, _: card.spec.power.threshold_gpu_c,
    ),
    (
        "habanalabs_temperature_threshold_memory",
        "Highest memory temperature in operation, in degrees Celsius.",
        lambda card, _: card.spec.power.threshold_memory_c,
    ),
    (
        "habanalabs_temperature_threshold_slowdown",
        "Temperature at which a real card lowers its clocks, in degrees Celsius.",
        lambda card, _: card.spec.power.threshold_slowdown_c,
    ),
    (
        "habanalabs_temperature_threshold_shutdown",
        "Temperature at which a real card switches itself off, in degrees Celsius.",
        lambda card, _: card.spec.power.threshold_shutdown_c,
    ),
    ("habanalabs_pci_link_speed", "PCIe link, in GT/s per lane.", lambda card, _: card.board.pci.link_gt_per_s),
    ("habanalabs_pci_link_width", "PCIe link, in lanes.", lambda card, _: card.board.pci.link_width),
    ("habanalabs_pcie_rx", "Bytes that the card received over PCIe since the start.", _pcie_bytes("received")),
    ("habanalabs_pcie_tx", "Bytes that the card sent over PCIe since the start.", _pcie_bytes("sent")),
    (
        "habanalabs_pcie_receive_throughput",
        "Received over PCIe, mean over the run so far, in KB/s of modelled time.",
        _pcie_kilobytes_per_second("received"),
    ),
    (
        "habanalabs_pcie_transmit_throughput",
        "Sent over PCIe, mean over the run so far, in KB/s of modelled time.",
        _pcie_kilobytes_per_second("sent"),
    ),
    ("habanalabs_pcie_replay_count", "PCIe packets sent again.", _constant(0)),
    ("habanalabs_ecc_feature_mode", "1: error correction is on.", _constant(1)),
    ("habanalabs_pending_rows_state", "Memory rows that await replacement.", _constant(0)),
    (
        "habanalabs_pending_rows_with_single_bit_ecc_errors",
        "Memory rows that await replacement after single-bit errors.",
        _constant(0),
    ),
    (
        "habanalabs_pending_rows_with_double_bit_ecc_errors",
        "Memory rows that await replacement after double-bit errors.",
        _constant(0),
    ),
    ("habanalabs_device_config", "1; the labels tell the card's versions.", _constant(1)),
    ("accelerator_memory_total_bytes", "Alias of habanalabs_memory_total_bytes.", _memory_total),
    ("accelerator_memory_used_bytes", "Alias of habanalabs_memory_used_bytes.", _memory_used),
    ("accelerator_gpu_utilization", "Alias of habanalabs_utilization.", _utilization),
    ("accelerator_sm_clock_hertz", "Alias of habanalabs_clock_soc_mhz, in Hz.", _clock_hertz),
    ("accelerator_memory_clock_hertz", "A constant, as the exporter has it.", _constant(MEMORY_CLOCK_HERTZ)),
    ("accelerator_power_usage_watts", "Alias of habanalabs_power_mW, in watts.", _watts),
    (
        "accelerator_temperature_celcius",
        "Alias of habanalabs_temperature_onchip; spelled as the exporter does.",
        lambda card, snapshot: _temperatures(card, snapshot).chip,
    ),
]


class ExporterCollector(Collector):
    """The exporter's gauges for all cards of a job."""

    def __init__(self, identities: Iterable[CardIdentity], board: SnapshotBoard) -> None:
        self._identities = list(identities)
        self._labels = [_values(identity) for identity in self._identities]
        self._board = board

    def collect(self) -> Iterator[Metric]:
        """The metric families, from one look at the latest snapshots."""
        snapshots = [self._board.get(identity.rank) for identity in self._identities]
        for name, text, read in _READINGS:
            gauge = GaugeMetricFamily(name, text, labels=_LABELS)
            for identity, labels, snapshot in zip(self._identities, self._labels, snapshots, strict=True):
                gauge.add_metric(labels, read(identity, snapshot))
            yield gauge
        yield self._ports()

    def _ports(self) -> Metric:
        gauge = GaugeMetricFamily(
            "habanalabs_nic_port_status",
            "1: the RoCE port is up; 0: it is down.",
            labels=(*_LABELS, "port", "port_type"),
        )
        for identity, labels in zip(self._identities, self._labels, strict=True):
            ports = identity.ports
            for port in range(ports.count):
                gauge.add_metric([*labels, str(port), ports.kind(port)], int(ports.is_up(port)))
        return gauge


def _values(card: CardIdentity) -> list[str]:
    """Label values, the same from the first scrape to the last. Pods do not exist here."""
    chip, firmware = card.board.chip, card.firmware
    place = [card.serial, card.uuid, card.device, str(card.module)]
    versions = [firmware.fit(chip), firmware.spi(chip), firmware.driver]
    return [*place, *versions, "", "", str(card.rank), card.spec.name]
