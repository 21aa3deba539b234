"""The Prometheus metrics: names, labels and values, before and after a card's first snapshot."""

from __future__ import annotations

import urllib.request
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from collectives.roce.box import load_box
from collectives.roce.network import Network, default_fabric
from device.spec import load_card
from hpucluster.identity import identify
from hpucluster.job import Job
from hpucluster.metrics_server import MetricsServer
from hpucluster.report import unused_card
from hpucluster.snapshots import Snapshot, SnapshotBoard
from hpucluster.telemetry import build_registry

SPEC = load_card("gaudi2")
JOB = Job(
    "train.py",
    [],
    modules=[2, 5],
    card="gaudi2",
    cwd="/",
    environ={},
    sys_path=[],
    identifier="77-abc",
    network=Network(load_box("hls2"), default_fabric(load_box("hls2"), 1), 8).to_plain(),
)

OWN = {
    "hpucluster_steps_total": 50,
    "hpucluster_step_seconds": 0.002,
    "hpucluster_graph_compilations_total": 3,
    "hpucluster_graph_compilation_seconds_total": 0.9,
    "hpucluster_recompilations_total": 2,
    "hpucluster_recipe_cache_hits_total": 47,
    "hpucluster_recipe_cache_misses_total": 3,
    "hpucluster_recipe_cache_entries": 3,
    "hpucluster_memory_limit_bytes": 1000,
    "hpucluster_memory_in_use_bytes": 300,
    "hpucluster_memory_peak_bytes": 700,
    "hpucluster_memory_workspace_bytes": 100,
    "hpucluster_utilization_ratio": 0.25,
    "hpucluster_cpu_fallbacks_total": 1,
    "hpucluster_collectives_total": 10,
    "hpucluster_collective_bytes_total": 4096,
    "hpucluster_collective_seconds_total": 0.125,
    "hpucluster_collective_wait_seconds_total": 0.0625,
}

# The driver's view: 768 MiB of the firmware and the pool of 1000 bytes.
USED = 768 * 2**20 + 1000
# 1 s of modelled time, MME busy for 0.25 s: 90 W idle + 510 W x 0.55 x 0.25. At 600 W, 46 and 25 C more than idle.
WATTS = 90 + 510 * 0.1375

EXPORTER = {
    "habanalabs_memory_total_bytes": SPEC.hbm.capacity_bytes,
    "habanalabs_memory_used_bytes": USED,
    "habanalabs_memory_free_bytes": SPEC.hbm.capacity_bytes - USED,
    "habanalabs_utilization": 25.0,
    "habanalabs_clock_soc_max_mhz": SPEC.tpc.clock_hz / 1e6,
    "habanalabs_clock_soc_mhz": SPEC.tpc.clock_hz / 1e6,
    "habanalabs_power_default_limit_mW": SPEC.power.limit_w * 1000,
    "accelerator_memory_total_bytes": SPEC.hbm.capacity_bytes,
    "habanalabs_power_mW": 1000 * WATTS,
    "habanalabs_energy": 1000 * WATTS * 1.0,
    "habanalabs_temperature_onchip": 29 + 46 * 0.1375,
    "habanalabs_temperature_onboard": 30 + 25 * 0.1375,
    "habanalabs_temperature_threshold_gpu": SPEC.power.threshold_gpu_c,
    "habanalabs_temperature_threshold_memory": SPEC.power.threshold_memory_c,
    "habanalabs_temperature_threshold_slowdown": SPEC.power.threshold_slowdown_c,
    "habanalabs_temperature_threshold_shutdown": SPEC.power.threshold_shutdown_c,
    "habanalabs_pci_link_speed": 16,
    "habanalabs_pci_link_width": 16,
    "habanalabs_pcie_rx": 2048,
    "habanalabs_pcie_tx": 1024,
    "habanalabs_pcie_receive_throughput": 2.0,
    "habanalabs_pcie_transmit_throughput": 1.0,
    "habanalabs_pcie_replay_count": 0,
    "habanalabs_ecc_feature_mode": 1,
    "habanalabs_pending_rows_state": 0,
    "habanalabs_pending_rows_with_single_bit_ecc_errors": 0,
    "habanalabs_pending_rows_with_double_bit_ecc_errors": 0,
    "habanalabs_device_config": 1,
    "accelerator_memory_used_bytes": USED,
    "accelerator_memory_clock_hertz": 18000000,
    "accelerator_power_usage_watts": WATTS,
    "accelerator_temperature_celcius": 29 + 46 * 0.1375,
    "accelerator_gpu_utilization": 25.0,
    "accelerator_sm_clock_hertz": SPEC.tpc.clock_hz,
}


def snapshot(module: int) -> Snapshot:
    """A snapshot with the figures of `OWN`."""
    return {
        **unused_card("gaudi2", module),
        "software": "1.19.0",
        "steps": 50,
        "graphs_compiled": 3,
        "compile_seconds": 0.9,
        "recompilations": 2,
        "recipe_cache": {"hits": 47, "misses": 3, "entries": 3},
        "cpu_fallback": {"total": 1, "ops": {"aten::foo": 1}},
        "memory": {"limit": 1000, "in_use": 300, "peak": 700, "workspace": 100},
        "time": {"total": 1.0, "host": 0.1, "compile": 0.5, "device": 0.3, "collectives": 0.1, "step": 0.002},
        "collectives": {"count": 10, "bytes": 4096, "seconds": 0.125, "waited": 0.0625},
        "utilization": 0.25,
        "engines": {"MME": 0.25, "TPC": 0.0},
        "pcie": {"received": 2048, "sent": 1024},
    }


@pytest.fixture
def board() -> SnapshotBoard:
    """Two cards, of which the second has been used."""
    board = SnapshotBoard(2)
    board.put(1, snapshot(5))
    return board


def parse(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by name: labels and value."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


@pytest.fixture
def samples(board: SnapshotBoard) -> dict[str, list[tuple[dict[str, str], float]]]:
    cards = identify(JOB, SPEC)
    return parse(generate_latest(build_registry(cards, board)).decode())


@pytest.mark.parametrize(("name", "value"), (OWN | EXPORTER).items())
def test_value_of_a_used_card(samples: Any, name: str, value: float) -> None:
    assert [labels["rank"] for labels, _ in samples[name]] == ["0", "1"]
    assert samples[name][1][1] == pytest.approx(value)


def test_no_other_metrics(samples: Any) -> None:
    assert set(samples) == {*OWN, *EXPORTER, "hpucluster_time_seconds_total", "habanalabs_nic_port_status"}


def test_labels(samples: Any) -> None:
    assert samples["hpucluster_steps_total"][1][0] == {"rank": "1", "module": "5", "card": "gaudi2"}
    labels = samples["habanalabs_utilization"][1][0]
    assert labels["id"] == "5" and labels["device"] == "accel5" and labels["rank"] == "1"
    assert labels["UUID"] != samples["habanalabs_utilization"][0][0]["UUID"]
    assert labels["driver"] == "1.19.0-emulated" and "hl-gaudi2-1.19.0-fw-57.2.4" in labels["fit"]
    assert set(labels) >= {
        "Serial",
        "UUID",
        "device",
        "id",
        "fit",
        "spi",
        "driver",
        "pod_name",
        "pod_namespace",
    }


def test_time_adds_up(samples: Any) -> None:
    shares = {
        labels["where"]: value for labels, value in samples["hpucluster_time_seconds_total"] if labels["rank"] == "1"
    }
    assert shares == {"host": 0.1, "compile": 0.5, "device": 0.3, "collectives": 0.1}


def test_unused_card_shows_its_memory_and_zeros(samples: Any) -> None:
    assert samples["hpucluster_memory_limit_bytes"][0][1] == SPEC.hbm.pool_bytes
    assert samples["habanalabs_memory_used_bytes"][0][1] == 768 * 2**20
    assert samples["hpucluster_steps_total"][0][1] == 0
    assert samples["habanalabs_energy"][0][1] == 0
    assert samples["habanalabs_power_mW"][0][1] == pytest.approx(90000)
    assert samples["habanalabs_temperature_onchip"][0][1] == pytest.approx(29)


def test_used_and_free_memory_add_up(samples: Any) -> None:
    for (_, total), (_, used), (_, free) in zip(
        *(samples[f"habanalabs_memory_{what}_bytes"] for what in ("total", "used", "free")), strict=True
    ):
        assert used + free == total


def test_a_pool_may_be_larger_than_what_the_firmware_leaves() -> None:
    board = SnapshotBoard(1)
    board.put(0, {**snapshot(0), "memory": {**snapshot(0)["memory"], "limit": SPEC.hbm.capacity_bytes}})
    found = parse(generate_latest(build_registry(identify(replace(JOB, modules=[0]), SPEC), board)).decode())
    assert found["habanalabs_memory_free_bytes"][0][1] == 0


def test_every_port_has_a_series(samples: Any) -> None:
    ports = [labels for labels, value in samples["habanalabs_nic_port_status"] if value == 1 and labels["rank"] == "1"]
    assert [int(labels["port"]) for labels in ports] == list(range(24))
    assert [labels["port"] for labels in ports if labels["port_type"] == "external"] == ["8", "22", "23"]


def port_status(job: Job, card: str) -> list[tuple[list[int], list[int]]]:
    """By rank: the ports that leave the box, and those that are down."""
    registry = build_registry(identify(job, load_card(card)), SnapshotBoard(job.world_size))
    series = parse(generate_latest(registry).decode())["habanalabs_nic_port_status"]
    return [
        (
            [
                int(labels["port"])
                for labels, _ in series
                if (labels["rank"], labels["port_type"]) == (rank, "external")
            ],
            [int(labels["port"]) for labels, value in series if labels["rank"] == rank and value == 0],
        )
        for rank in map(str, range(job.world_size))
    ]


def test_ports_are_up_or_down_as_in_the_job_s_network() -> None:
    box = load_box("hls3")
    links = ("0.1:8=down", "0.5:12=down", "1.5:2=down", "*:0=0.5")
    network = Network(box, default_fabric(box, 2), 2, links).to_plain()
    # Four ranks, two in each box; modules 1 and 5 are none below 2, so ranks take modules 0 and 1.
    assert port_status(replace(JOB, modules=[1, 5, 9, 13], card="gaudi3", network=network), "gaudi3") == [
        ([17, 20, 21], [6]),
        ([5, 8, 9], [8]),
        ([17, 20, 21], []),
        ([5, 8, 9], []),
    ]
    network = Network(box, default_fabric(box, 1), 8, links[:2]).to_plain()
    # 5:12 is the far end of 0:6; rank 0 is module 1, which has no part in it.
    assert port_status(replace(JOB, modules=[1, 0], card="gaudi3", network=network), "gaudi3") == [
        ([5, 8, 9], [8]),
        ([17, 20, 21], [6]),
    ]


def test_a_report_without_engines_and_pcie_counters_will_do() -> None:
    board = SnapshotBoard(1)
    old = {key: value for key, value in snapshot(0).items() if key not in ("engines", "pcie")}
    board.put(0, old)
    found = parse(generate_latest(build_registry(identify(replace(JOB, modules=[0]), SPEC), board)).decode())
    assert found["habanalabs_power_mW"][0][1] == pytest.approx(1000 * (90 + 510 * 0.25))
    assert found["habanalabs_pcie_rx"][0][1] == 0


def test_energy_never_falls() -> None:
    board = SnapshotBoard(1)
    registry = build_registry(identify(replace(JOB, modules=[0]), SPEC), board)
    seen = []
    for seconds, busy in ((0.0, 0.0), (0.5, 0.5), (3.0, 0.5), (3.0, 1.0), (3.5, 1.0)):
        now = snapshot(0)
        board.put(0, {**now, "time": {**now["time"], "total": seconds}, "engines": {"MME": busy}})
        seen.append(parse(generate_latest(registry).decode())["habanalabs_energy"][0][1])
    assert seen == sorted(seen) and seen[0] == 0 and seen[-1] == pytest.approx(1000 * (90 * 3.5 + 510 * 0.55))


def test_series_keep_their_labels_when_the_card_is_first_used(board: SnapshotBoard) -> None:
    registry = build_registry(identify(JOB, SPEC), board)
    before = parse(generate_latest(registry).decode())
    board.put(0, snapshot(2))
    after = parse(generate_latest(registry).decode())
    for name in before:
        assert [labels for labels, _ in before[name]] == [labels for labels, _ in after[name]], name


def test_server_answers_on_loopback_and_frees_its_port(board: SnapshotBoard) -> None:
    registry = build_registry(identify(replace(JOB, modules=[2]), SPEC), board)
    with MetricsServer(0, registry) as server:
        url = f"http://127.0.0.1:{server.port}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            assert "hpucluster_steps_total" in parse(answer.read().decode())
        with pytest.raises(OSError):
            MetricsServer(server.port, registry)
    with MetricsServer(server.port, registry):
        pass
