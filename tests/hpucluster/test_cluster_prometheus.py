"""Prometheus scrapes a live job and answers every query of the dashboard; Grafana's files fit together."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from device.spec import configs_dir

from .hpurun_process import environment, start_hpurun

CONFIG = configs_dir() / "prometheus" / "prometheus.yml"
GRAFANA = configs_dir() / "grafana"
DASHBOARD = json.loads((GRAFANA / "dashboards" / "hpucluster.json").read_text())
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]

TRAINING = """
    import os, pathlib, time
    import torch
    import habana_frameworks.torch.core as htcore
    import torch.distributed as dist

    dist.init_process_group("hccl")
    model = torch.nn.Linear(64, 64).to("hpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = 0
    while not pathlib.Path("stop").exists():
        batch = 8 + step % 2 if step < 4 else 8
        loss = model(torch.ones(batch, 64, device="hpu")).square().mean()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
        htcore.mark_step()
        step += 1
        time.sleep(0.05)
"""


def find(program: str) -> str:
    """Path of one of Prometheus's programs."""
    path = shutil.which(program)
    if path is None:
        pytest.fail(f"{program} is not installed; this test needs it: apt-get install prometheus")
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def ask(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def until(condition: Any, patience: float, what: str) -> Any:
    """Wait until `condition()` is true and return it; no connection or no answer in time counts as not yet."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            if value := condition():
                return value
        except OSError:
            pass
        time.sleep(0.2)
    pytest.fail(f"no {what} within {patience:.0f} s")


@pytest.fixture(scope="module")
def live_job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A job of two cards that trains until the tests are done; its metrics port."""
    folder = tmp_path_factory.mktemp("live")
    lines = TRAINING.strip("\n").splitlines()
    (folder / "train.py").write_text("\n".join(line[4:] for line in lines) + "\n")
    port = free_port()
    job = start_hpurun(folder, "--metrics-port", str(port), "--cards", "2", "train.py")

    def trained() -> bool:
        if job.poll() is not None:
            assert job.stdout is not None
            pytest.fail(f"the job ended early:\n{job.stdout.read()}")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            steps = [line for line in answer.read().decode().splitlines() if line.startswith("hpucluster_steps_total{")]
        return len(steps) == 2 and all(float(line.split()[-1]) >= 10 for line in steps)

    until(trained, 240, "training steps on both cards in the job's metrics")
    yield port
    (folder / "stop").touch()
    try:
        job.wait(30)
    finally:
        if job.poll() is None:
            job.terminate()
            job.wait(30)
        assert job.stdout is not None
        job.stdout.close()


@pytest.fixture(scope="module")
def prometheus(live_job: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Prometheus that scrapes the live job by the shipped configuration, but every second."""
    folder = tmp_path_factory.mktemp("prometheus")
    text = CONFIG.read_text()
    for old, new in (
        ("127.0.0.1:41611", f"127.0.0.1:{live_job}"),
        ("interval: 5s", "interval: 1s"),
        ("timeout: 4s", "timeout: 1s"),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "prometheus.yml").write_text(text)
    address = f"127.0.0.1:{free_port()}"
    server = subprocess.Popen(
        [
            find("prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
        ],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        count = urllib.parse.quote("min(count_over_time(hpucluster_steps_total[1m]))")

        def scraped() -> bool:
            result = ask(f"http://{address}/api/v1/query?query={count}")["data"]["result"]
            return bool(result) and float(result[0]["value"][1]) >= 3

        until(scraped, 30, "three scrapes of the job by Prometheus")
        yield f"http://{address}"
    finally:
        server.terminate()
        server.wait(15)


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_prometheus_answers_every_query_of_the_dashboard(prometheus: str, query: str) -> None:
    answer = ask(f"{prometheus}/api/v1/query?query={urllib.parse.quote(query)}")
    assert answer["status"] == "success"
    assert answer["data"]["result"], f"no data for {query}"


@pytest.mark.slow
def test_live_job_tells_what_dashboards_ask_for(live_job: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{live_job}/metrics", timeout=5) as answer:
        found = {line.partition("{")[0] for line in answer.read().decode().splitlines() if not line.startswith("#")}
    names = (
        "clock_soc_max_mhz clock_soc_mhz energy memory_free_bytes memory_total_bytes memory_used_bytes nic_port_status"
        " pci_link_speed pci_link_width pcie_rx pcie_tx power_default_limit_mW power_mW temperature_onboard"
        " temperature_onchip utilization"
    )
    assert {f"habanalabs_{name}" for name in names.split()} <= found


@pytest.mark.slow
def test_prometheus_finds_no_fault_with_the_target(prometheus: str) -> None:
    (target,) = ask(f"{prometheus}/api/v1/targets")["data"]["activeTargets"]
    assert (target["health"], target["lastError"], target["labels"]["job"]) == ("up", "", "hpucluster")


def test_prometheus_configuration_is_valid() -> None:
    check = subprocess.run([find("promtool"), "check", "config", str(CONFIG)], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr


def test_dashboard_covers_what_the_cards_tell() -> None:
    text = " ".join(QUERIES)
    for name in (
        "hpucluster_graph_compilations_total",
        "hpucluster_recompilations_total",
        "hpucluster_recipe_cache_hits_total",
        "hpucluster_memory_peak_bytes",
        "hpucluster_step_seconds",
        "hpucluster_collective_seconds_total",
        "habanalabs_utilization",
    ):
        assert name in text
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


def test_dashboard_s_data_source_is_the_provisioned_one() -> None:
    provisioned = (GRAFANA / "provisioning" / "datasources" / "prometheus.yml").read_text()
    for panel in DASHBOARD["panels"]:
        for source in (panel["datasource"], *(target["datasource"] for target in panel["targets"])):
            assert f"uid: {source['uid']}\n" in provisioned and source["type"] == "prometheus"
    assert "$HPUCLUSTER_DASHBOARDS" in (GRAFANA / "provisioning" / "dashboards" / "hpucluster.yml").read_text()
