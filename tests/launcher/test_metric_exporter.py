"""`habana-metric-exporter` tells Prometheus of every card of the machine, whatever started its process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from device.board import load_board
from device.card_records import FOLDER_VARIABLE
from device.power import energy_joules
from device.spec import load_card

ROOT = Path(__file__).resolve().parent.parent.parent
HOLDER = ROOT / "tests" / "device" / "card_holder.py"
SPEC = load_card("gaudi2")
FIRMWARE = load_board("hls2").memory.firmware_bytes
CHOICE = ("HPUCLUSTER_CARD", "HPUCLUSTER_SOFTWARE", "HPUCLUSTER_FABRIC", "HPUCLUSTER_LINKS", "HABANA_VISIBLE_DEVICES")
NAMES = (
    "clock_soc_max_mhz clock_soc_mhz device_config ecc_feature_mode energy memory_free_bytes memory_total_bytes"
    " memory_used_bytes nic_port_status pci_link_speed pci_link_width pcie_receive_throughput pcie_transmit_throughput"
    " pcie_replay_count pcie_rx pcie_tx pending_rows_state pending_rows_with_single_bit_ecc_errors"
    " pending_rows_with_double_bit_ecc_errors power_default_limit_mW power_mW temperature_onboard temperature_onchip"
    " temperature_threshold_gpu temperature_threshold_memory temperature_threshold_shutdown"
    " temperature_threshold_slowdown utilization"
)
ALIASES = (
    "memory_clock_hertz sm_clock_hertz memory_total_bytes memory_used_bytes power_usage_watts temperature_celcius"
    " gpu_utilization"
)

TRAINING = """
import sys
import torch

for line in sys.stdin:
    batch = torch.ones(2**20).to("hpu")
    (batch @ batch).item()
    print("done", flush=True)
"""

Samples = dict[str, list[tuple[dict[str, str], float]]]


class Exporter:
    """The program, and what it serves."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.line = process.stdout.readline()
        self.url = next((word for word in self.line.split() if word.startswith("http")), "")

    def text(self) -> str:
        with urllib.request.urlopen(self.url, timeout=10) as answer:
            return str(answer.read().decode())

    def samples(self) -> Samples:
        found: Samples = {}
        for family in text_string_to_metric_families(self.text()):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found

    def value(self, name: str, card: int) -> float:
        """Of `habanalabs_NAME`, for the card of that index."""
        (value,) = (value for labels, value in self.samples()[f"habanalabs_{name}"] if labels["id"] == str(card))
        return value

    def until(self, name: str, card: int, expected: Callable[[float], bool]) -> float:
        """Scrape until the value is as expected, and return it."""
        deadline = time.monotonic() + 30
        while not expected(value := self.value(name, card)):
            assert time.monotonic() < deadline, f"{name} of card {card} is still {value} after 30 s"
            time.sleep(0.05)
        return value


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start("-m", "x", NAME="value")`: Python on a machine of its own, where nobody holds a card yet."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str, **environ: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env={name: value for name, value in os.environ.items() if name not in CHOICE}
            | {"PYTHONPATH": str(ROOT), FOLDER_VARIABLE: str(tmp_path / "cards")}
            | environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def exporter(start: Start) -> Exporter:
    return Exporter(start("-m", "launcher.metric_exporter", "--port", "0"))


def refused(start: Start, *arguments: str, **environ: str) -> str:
    """What the program says before it ends with status 2: one line."""
    out, err = start("-m", "launcher.metric_exporter", *arguments, **environ).communicate(timeout=60)
    (line,) = err.splitlines()
    assert not out and line.startswith("habana-metric-exporter: ")
    return str(line)


def hold(start: Start, module: int) -> subprocess.Popen[str]:
    process = start(str(HOLDER), "gaudi2", str(module))
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def labels_of(samples: Samples) -> dict[str, list[dict[str, str]]]:
    return {name: [labels for labels, _ in series] for name, series in samples.items()}


def test_an_idle_box_has_every_series_of_every_card(exporter: Exporter) -> None:
    assert exporter.line == f"habana-metric-exporter: serving {exporter.url} (Ctrl-C ends)\n"
    assert exporter.url.startswith("http://127.0.0.1:") and exporter.url.endswith("/metrics")
    samples = exporter.samples()
    names = {f"habanalabs_{name}" for name in NAMES.split()} | {f"accelerator_{name}" for name in ALIASES.split()}
    assert set(samples) == names
    for name, series in samples.items():
        assert len(series) == 8 * (24 if name == "habanalabs_nic_port_status" else 1), name
    labels = [labels for labels, _ in samples["habanalabs_utilization"]]
    assert [(each["id"], each["device"]) for each in labels] == [(str(card), f"accel{card}") for card in range(8)]
    assert (labels[3]["Serial"], labels[3]["UUID"], labels[3]["card"]) == ("EMULATED03", "EMULATED-HL-225-03", "gaudi2")
    assert labels[3]["driver"] == "1.19.0-emulated" and labels[3]["rank"] == labels[3]["pod_name"] == ""
    assert {value for _, value in samples["habanalabs_memory_used_bytes"]} == {FIRMWARE}
    assert {value for _, value in samples["habanalabs_power_mW"]} == {1000 * SPEC.power.idle_w}
    assert {value for _, value in samples["habanalabs_energy"]} == {0}


def test_a_plain_script_is_seen_while_it_holds_its_card(exporter: Exporter, start: Start, tmp_path: Path) -> None:
    before = exporter.samples()
    (tmp_path / "train.py").write_text(TRAINING)
    script = start("train.py", HLS_MODULE_ID="6")

    def step() -> None:
        assert script.stdin is not None and script.stdout is not None
        script.stdin.write("\n")
        script.stdin.flush()
        assert script.stdout.readline() == "done\n"

    step()
    sent = exporter.until("pcie_tx", 6, lambda sent: sent > 0)  # the step's last deed
    received, energy = exporter.value("pcie_rx", 6), exporter.value("energy", 6)
    assert received >= 2**22 and energy > 0
    assert exporter.value("memory_used_bytes", 6) > FIRMWARE
    assert 0 < exporter.value("utilization", 6) <= 100 and exporter.value("utilization", 5) == 0
    step()
    exporter.until("pcie_tx", 6, lambda now: now > sent)
    assert exporter.value("pcie_rx", 6) == received + 2**22
    assert (after := exporter.value("energy", 6)) > energy
    samples = exporter.samples()
    assert labels_of(samples) == labels_of(before), "series are those of the idle card"
    for (_, total), (_, used), (_, free) in zip(
        *(samples[f"habanalabs_memory_{what}_bytes"] for what in ("total", "used", "free")), strict=True
    ):
        assert used + free == total
    script.kill()
    script.wait()
    assert exporter.value("memory_used_bytes", 6) == FIRMWARE
    assert exporter.value("utilization", 6) == 0
    assert exporter.value("energy", 6) >= after, "a card's counters go on from where a process left them"


def test_processes_that_share_a_card_add_up(exporter: Exporter, start: Start) -> None:
    # card_holder.py: 2 s of modelled time, a quarter of it busy; 1 MiB received, 0.25 MiB sent.
    millijoules = 1000 * energy_joules(SPEC.power, {"MME": 0.5, "TPC": 0.25}, 2.0)
    expected: dict[str, Any] = {
        "utilization": (25, 50),
        "energy": (millijoules, 2 * millijoules),
        "power_mW": (millijoules / 2, millijoules - 1000 * SPEC.power.idle_w),
        "pcie_rx": (2**20, 2**21),
        "pcie_tx": (2**18, 2**19),
        "pcie_receive_throughput": (512, 1024),
        "pcie_transmit_throughput": (128, 256),
    }
    for holders in range(2):
        process = hold(start, 3)
        for name, values in expected.items():
            assert exporter.value(name, 3) == pytest.approx(values[holders]), name
    used = min(SPEC.hbm.capacity_bytes, FIRMWARE + 2 * SPEC.hbm.pool_bytes)
    assert exporter.value("memory_used_bytes", 3) == used
    process.kill()
    process.wait()
    assert exporter.value("utilization", 3) == pytest.approx(25)
    assert exporter.value("energy", 3) == pytest.approx(2 * millijoules)


def test_promtool_reads_what_is_served(exporter: Exporter) -> None:
    promtool = shutil.which("promtool")
    assert promtool is not None, "this test needs promtool: apt-get install prometheus"
    check = subprocess.run([promtool, "check", "metrics"], input=exporter.text(), capture_output=True, text=True)
    # 3: it would have chosen other names. They are the real exporter's.
    assert check.returncode in (0, 3), check.stderr
    assert "error while linting" not in check.stderr


def test_ctrl_c_ends_it_quietly(exporter: Exporter) -> None:
    exporter.text()
    exporter.process.send_signal(signal.SIGINT)
    out, err = exporter.process.communicate(timeout=30)
    assert (exporter.process.returncode, out, err.strip()) == (130, "", "")


def test_mistakes_are_named_with_their_remedy(exporter: Exporter, start: Start) -> None:
    port = exporter.url.rpartition(":")[2].partition("/")[0]
    holder = f"(pid {exporter.process.pid})"
    assert f"--port {port}: in use by python" in (line := refused(start, "--port", port)) and holder in line
    assert "--host 192.0.2.1: " in refused(start, "--port", "0", "--host", "192.0.2.1")
    assert "HABANA_VISIBLE_DEVICES=none" in refused(start, HABANA_VISIBLE_DEVICES="none")
    assert "HPUCLUSTER_SOFTWARE='new'" in refused(start, HPUCLUSTER_SOFTWARE="new")
