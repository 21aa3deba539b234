"""The Prometheus metrics: names, labels and values, before and after a card's first snapshot."""

from __future__ import annotations

import urllib.request
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from device.spec import load_card
from hpucluster.identity import CardIdentity
from hpucluster.metrics_server import MetricsServer
from hpucluster.report import unused_card
from hpucluster.snapshots import Snapshot, SnapshotBoard
from hpucluster.telemetry import build_registry

SPEC = load_card("gaudi2")

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

EXPORTER = {
    "habanalabs_memory_total_bytes": SPEC.hbm.capacity_bytes,
    "habanalabs_memory_used_bytes": 300,
    "habanalabs_memory_free_bytes": SPEC.hbm.capacity_bytes - 300,
    "habanalabs_utilization": 25.0,
    "habanalabs_clock_soc_max_mhz": SPEC.tpc.clock_hz / 1e6,
    "habanalabs_clock_soc_mhz": SPEC.tpc.clock_hz / 1e6,
    "habanalabs_power_default_limit_mW": SPEC.power.limit_w * 1000,
    "accelerator_memory_total_bytes": SPEC.hbm.capacity_bytes,
    "accelerator_memory_used_bytes": 300,
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
    cards = [CardIdentity(0, 2, SPEC), CardIdentity(1, 5, SPEC)]
    return parse(generate_latest(build_registry(cards, board)).decode())


@pytest.mark.parametrize(("name", "value"), (OWN | EXPORTER).items())
def test_value_of_a_used_card(samples: Any, name: str, value: float) -> None:
    assert [labels["rank"] for labels, _ in samples[name]] == ["0", "1"]
    assert samples[name][1][1] == pytest.approx(value)


def test_no_other_metrics(samples: Any) -> None:
    assert set(samples) == {*OWN, *EXPORTER, "hpucluster_time_seconds_total"}


def test_labels(samples: Any) -> None:
    assert samples["hpucluster_steps_total"][1][0] == {"rank": "1", "module": "5", "card": "gaudi2"}
    labels = samples["habanalabs_utilization"][1][0]
    assert labels["id"] == "5" and labels["device"] == "accel5" and labels["rank"] == "1"
    assert labels["UUID"] != samples["habanalabs_utilization"][0][0]["UUID"]
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
    assert samples["habanalabs_memory_free_bytes"][0][1] == SPEC.hbm.capacity_bytes
    assert samples["hpucluster_steps_total"][0][1] == 0


def test_series_keep_their_labels_when_the_card_is_first_used(board: SnapshotBoard) -> None:
    registry = build_registry([CardIdentity(0, 2, SPEC), CardIdentity(1, 5, SPEC)], board)
    before = parse(generate_latest(registry).decode())
    board.put(0, snapshot(2))
    after = parse(generate_latest(registry).decode())
    for name in before:
        assert [labels for labels, _ in before[name]] == [labels for labels, _ in after[name]], name


def test_server_answers_on_loopback_and_frees_its_port(board: SnapshotBoard) -> None:
    registry = build_registry([CardIdentity(0, 2, SPEC)], board)
    with MetricsServer(0, registry) as server:
        url = f"http://127.0.0.1:{server.port}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            assert "hpucluster_steps_total" in parse(answer.read().decode())
        with pytest.raises(OSError):
            MetricsServer(server.port, registry)
    with MetricsServer(server.port, registry):
        pass
