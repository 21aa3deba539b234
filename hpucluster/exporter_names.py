"""The metrics of the Gaudi Prometheus exporter, under the exporter's names and with its labels.

Names and labels as the exporter's documentation lists them (Prometheus_Metric_Exporter, port 41611): gauges beginning
with `habanalabs_`, and its `accelerator_` aliases. What they say of an emulated card:

- Memory as the driver sees it: what the firmware keeps, and from the moment a process takes the card, its whole pool.
  What the process has allocated in its pool is `hpucluster_memory_in_use_bytes`.
- Energy, power, temperature, utilization and PCIe throughput are modelled (`device/power.py`), in modelled time. Those
  of a job are means over its run so far; those of the machine's cards (`habana-metric-exporter`) are of late, as in
  `hl-smi`, but for the throughput. `habanalabs_energy` and the PCIe bytes count from the start.
- A RoCE port is up unless the job's network says that its link is down; a link that lost part of its rate is up.
- Nothing breaks here: ECC is on and counts no errors, no rows await replacement, PCIe repeats nothing.

Left out: `kube_info`, as there are no pods; the limit of one scrape in 5 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .card_figures import CardFigures
from .identity import device_file, serial_number, unique_id

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

Reading = Callable[[CardFigures], float]


def _constant(value: float) -> Reading:
    return lambda _card: value


_READINGS: list[tuple[str, str, Reading]] = [
    ("habanalabs_memory_total_bytes", "Card memory.", lambda card: card.kind.memory_bytes),
    (
        "habanalabs_memory_used_bytes",
        "Card memory that the firmware and the process's pool take.",
        lambda card: card.memory_used,
    ),
    (
        "habanalabs_memory_free_bytes",
        "Card memory that neither takes.",
        lambda card: card.kind.memory_bytes - card.memory_used,
    ),
    (
        "habanalabs_utilization",
        "Share of the modelled time in which the card computed, in percent.",
        lambda card: 100 * card.utilization,
    ),
    ("habanalabs_clock_soc_max_mhz", "Largest clock of the card, in MHz.", lambda card: card.kind.clock_hz / 1e6),
    (
        "habanalabs_clock_soc_mhz",
        "Clock of the card, in MHz; the model does not throttle it.",
        lambda card: card.kind.clock_hz / 1e6,
    ),
    (
        "habanalabs_power_default_limit_mW",
        "Power limit of the card, in milliwatts.",
        lambda card: 1000 * card.kind.power.limit_w,
    ),
    ("habanalabs_power_mW", "Modelled power, in milliwatts.", lambda card: 1000 * card.power_w),
    ("habanalabs_energy", "Modelled energy since the start, in millijoules.", lambda card: 1000 * card.energy_j),
    (
        "habanalabs_temperature_onchip",
        "Modelled temperature of the chip, in degrees Celsius.",
        lambda card: card.temperatures.chip,
    ),
    (
        "habanalabs_temperature_onboard",
        "Modelled temperature of the board, in degrees Celsius.",
        lambda card: card.temperatures.board,
    ),
    (
        "habanalabs_temperature_threshold_gpu",
        "Highest chip temperature in operation, in degrees Celsius.",
        lambda card: card.kind.power.threshold_gpu_c,
    ),
    (
        "habanalabs_temperature_threshold_memory",
        "Highest memory temperature in operation, in degrees Celsius.",
        lambda card: card.kind.power.threshold_memory_c,
    ),
    (
        "habanalabs_temperature_threshold_slowdown",
        "Temperature at which a real card lowers its clocks, in degrees Celsius.",
        lambda card: card.kind.power.threshold_slowdown_c,
    ),
    (
        "habanalabs_temperature_threshold_shutdown",
        "Temperature at which a real card switches itself off, in degrees Celsius.",
        lambda card: card.kind.power.threshold_shutdown_c,
    ),
    ("habanalabs_pci_link_speed", "PCIe link, in GT/s per lane.", lambda card: card.board.pci.link_gt_per_s),
    ("habanalabs_pci_link_width", "PCIe link, in lanes.", lambda card: card.board.pci.link_width),
    ("habanalabs_pcie_rx", "Bytes that the card received over PCIe since the start.", lambda card: card.received),
    ("habanalabs_pcie_tx", "Bytes that the card sent over PCIe since the start.", lambda card: card.sent),
    (
        "habanalabs_pcie_receive_throughput",
        "Received over PCIe, mean over the run so far, in KB/s of modelled time.",
        lambda card: card.received_per_s / 1024,
    ),
    (
        "habanalabs_pcie_transmit_throughput",
        "Sent over PCIe, mean over the run so far, in KB/s of modelled time.",
        lambda card: card.sent_per_s / 1024,
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
    ("accelerator_memory_total_bytes", "Alias of habanalabs_memory_total_bytes.", lambda card: card.kind.memory_bytes),
    ("accelerator_memory_used_bytes", "Alias of habanalabs_memory_used_bytes.", lambda card: card.memory_used),
    ("accelerator_gpu_utilization", "Alias of habanalabs_utilization.", lambda card: 100 * card.utilization),
    ("accelerator_sm_clock_hertz", "Alias of habanalabs_clock_soc_mhz, in Hz.", lambda card: card.kind.clock_hz),
    ("accelerator_memory_clock_hertz", "A constant, as the exporter has it.", _constant(MEMORY_CLOCK_HERTZ)),
    ("accelerator_power_usage_watts", "Alias of habanalabs_power_mW, in watts.", lambda card: card.power_w),
    (
        "accelerator_temperature_celcius",
        "Alias of habanalabs_temperature_onchip; spelled as the exporter does.",
        lambda card: card.temperatures.chip,
    ),
]


class ExporterCollector(Collector):
    """The exporter's gauges for the cards that `look` finds whenever Prometheus scrapes."""

    def __init__(self, look: Callable[[], Iterable[CardFigures]]) -> None:
        self._look = look

    def collect(self) -> Iterator[Metric]:
        """The metric families, from one look at the cards."""
        cards = [(_values(card), card) for card in self._look()]
        for name, text, read in _READINGS:
            gauge = GaugeMetricFamily(name, text, labels=_LABELS)
            for labels, card in cards:
                gauge.add_metric(labels, read(card))
            yield gauge
        ports = GaugeMetricFamily(
            "habanalabs_nic_port_status",
            "1: the RoCE port is up; 0: it is down.",
            labels=(*_LABELS, "port", "port_type"),
        )
        for labels, card in cards:
            for port in range(card.ports.count):
                ports.add_metric([*labels, str(port), card.ports.kind(port)], int(card.ports.is_up(port)))
        yield ports


def _values(card: CardFigures) -> list[str]:
    """Label values, the same from the first scrape to the last. Pods do not exist here."""
    kind, chip, firmware = card.kind, card.board.chip, card.firmware
    number = card.number
    place = [serial_number(number), unique_id(kind.product, number), device_file(number), str(number)]
    versions = [firmware.fit(chip), firmware.spi(chip), firmware.driver]
    return [*place, *versions, "", "", "" if card.rank is None else str(card.rank), kind.name]
