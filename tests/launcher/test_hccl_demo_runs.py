"""`hccl_demo` with real ranks: published bandwidths, every test with its data checked, files, failures."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpucluster.placement import free_port
from launcher.hccl_demo.catalogue import TESTS

from ..missing import need

ROOT = Path(__file__).resolve().parents[2]
DRIVER = ROOT / "tests" / "launcher" / "hccl_demo_driver.py"
COLLECTIVES = [test for test in TESTS if test not in ("send_recv", "scale_validation")]


@dataclass
class Run:
    """What one call printed, and how it ended."""

    text: str
    status: int

    def figure(self, name: str) -> float:
        """A result, as scripts find it: `figure("NW Bandwidth")` in GB/s."""
        found = re.findall(rf"\[BENCHMARK\]\s+{name}\s*:\s*([0-9.]+) (?:GB/s|ms)", self.text)
        return float(found[0])

    @property
    def checked(self) -> list[int]:
        """The ranks that found their results to be fine, in the order of their lines."""
        return [int(rank) for rank in re.findall(r"^rank=(\d+) .* which is fine\.$", self.text, re.MULTILINE)]


def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HCCL_", "HPUCLUSTER_", "HABANA_", "OMPI_"))}
    return kept | {"PYTHONPATH": str(ROOT), "HPUCLUSTER_SHARED_CARDS": "1"}  # other tests hold cards, too


def call(*runs: str, cwd: Path, faults: Sequence[str] = ()) -> list[Run]:
    """Run `hccl_demo` with each of these arguments (and that fault of the driver's), from one process."""
    cases = zip(runs, faults or [""] * len(runs), strict=True)
    asked = json.dumps([{"arguments": run.split(), "fault": fault} for run, fault in cases])
    done = subprocess.run(
        [sys.executable, str(DRIVER), asked],
        cwd=cwd,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    parts = re.split(r"^STATUS (\d+)\n", done.stdout, flags=re.MULTILINE)
    assert len(parts) == 2 * len(runs) + 1, done.stdout[-3000:]
    return [Run(text, int(status)) for text, status in zip(parts[::2], parts[1::2], strict=False)]


def test_published_bandwidths_and_idle_links_of_a_mesh(tmp_path: Path) -> None:
    """Sources: README of HabanaAI/hccl_demo and Intel's documentation of it (reference figures of 8 cards)."""
    eight, two, gaudi3 = call(
        "--nranks 8 --test all_reduce --size 33554432 --loop 500",
        "--nranks 2 --test all_reduce --size 33554432 --loop 500 --no_correctness",
        "--nranks 8 --test all_reduce --size 256m --loop 200 --no_correctness --card gaudi3",
        cwd=tmp_path,
    )
    assert eight.status == two.status == gaudi3.status == 0
    assert eight.checked == list(range(8)) and not two.checked
    assert eight.figure("NW Bandwidth") == pytest.approx(258.2, rel=0.01)
    assert eight.figure("Algo Bandwidth") == pytest.approx(147.5, rel=0.01)
    assert gaudi3.figure("NW Bandwidth") == pytest.approx(513.0, rel=0.015)
    assert two.figure("Algo Bandwidth") == pytest.approx(eight.figure("Algo Bandwidth") / 4, rel=0.03)


@pytest.fixture(scope="module")
def every_test(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Every test with three ranks, once by ranks and once by the model."""
    folder = tmp_path_factory.mktemp("every")
    lines = [f"--nranks 3 --loop 50 --size 3m --test_root 1 --test {test}" for test in TESTS]
    runs = call(*lines, *(f"{line} --model" for line in lines), cwd=folder)
    return dict(zip([*TESTS, *(f"{test} model" for test in TESTS)], runs, strict=True))


@pytest.mark.parametrize("test", COLLECTIVES)
def test_results_are_checked_on_the_ranks_that_have_any(every_test: dict[str, Run], test: str) -> None:
    run = every_test[test]
    assert run.status == 0, run.text
    assert run.checked == {"broadcast": [0, 2], "reduce": [1]}.get(test, [0, 1, 2])
    assert run.text.count(f"[BENCHMARK] {TESTS[test].call}(dataSize=3145728, count=786432, dtype=float, ") == 1


@pytest.mark.parametrize("test", COLLECTIVES)
def test_the_model_alone_says_the_same(every_test: dict[str, Run], test: str) -> None:
    run, model = every_test[test], every_test[f"{test} model"]
    # A loop of 50 begins with one call that nothing hides.
    for name in ("NW Bandwidth", "Algo Bandwidth"):
        assert run.figure(name) == pytest.approx(model.figure(name), rel=0.01)
    assert f"[BENCHMARK] {TESTS[test].call}(" in model.text and "[MODEL]     Algorithm" in model.text


def test_send_recv_is_told_by_every_rank(every_test: dict[str, Run]) -> None:
    run = every_test["send_recv"]
    assert run.status == 0 and run.checked == [0, 1, 2]  # rank 2 has nobody else
    assert run.text.count("[BENCHMARK] hcclSendRecv(") == 3
    assert run.figure("NW Bandwidth") == pytest.approx(every_test["send_recv model"].figure("NW Bandwidth"), rel=0.01)


def test_scale_validation_passes_on_healthy_ports(every_test: dict[str, Run]) -> None:
    for name in ("scale_validation", "scale_validation model"):
        run = every_test[name]
        assert run.status == 0, run.text
        assert "ScaleUp - Expected 37.500000 GB/s\nTest passed. The BW between all nodes" in run.text


def test_options_of_a_test(tmp_path: Path) -> None:
    ranged, latency, custom, pairs, data = call(
        "--nranks 2 --test all_reduce --data_type bfloat16 --reduction_op max --size_range 32b 1k --size_range_inc 2"
        " --loop 3 --result_csv results.csv",
        "--nranks 2 --test all_gather --measure latency --size 64k --loop 3 --result_csv results.csv",
        "--nranks 4 --test reduce --custom_comm 3,1 --size 1k --loop 3",
        "--nranks 3 --test send_recv --ranks_list 0,2,1,2 --size 1m --loop 50",
        "--nranks 2 --test reduce_scatter --size 32 --loop 1 --data_csv . --clean --no_color",
        cwd=tmp_path,
    )
    sizes = [32, 128, 512]
    assert [f"Processing data_size {size}\n" in ranged.text for size in sizes] == [True] * 3
    rows = [line.split() for line in ranged.text.split("[BANDWIDTH SUMMARY REPORT]")[1].splitlines()[5:]]
    assert [(int(row[0]), int(row[1]), *row[2:4]) for row in rows] == [(s, s // 2, "bfloat16", "max") for s in sizes]
    assert latency.figure("Host Latency") >= latency.figure("Device Latency") > 0
    written = [row.split(",") for row in (tmp_path / "results.csv").read_text().splitlines()]
    assert [row[:5] for row in written] == [
        *(["all_reduce", "0", "bfloat16", str(size), "3"] for size in sizes),
        ["all_gather", "0", "float", "65536", "3"],
    ]
    assert written[0][5].endswith(" GB/s") and written[3][5].endswith(" ms")

    assert custom.checked == [1]
    assert custom.text.count("will not participate in the custom communicator") == 2
    assert "the root rank is automatically set to 1." in custom.text
    assert "Output Buffer [4 8 12 16 ...]" in custom.text  # (1 + 2 i) + (3 + 2 i)

    assert "Will perform ranks send_recv test with list: 0,2,1,2\n" in pairs.text
    assert pairs.text.count("[BENCHMARK] hcclSendRecv_rank_2(") == pairs.text.count("[BENCHMARK] hcclSendRecv") == 1
    assert pairs.figure("NW Bandwidth") == pytest.approx(2 * pairs.figure("Algo Bandwidth"), rel=1e-6)

    assert data.status == 0 and "\033" not in data.text
    files = sorted(tmp_path.glob("HCCL_demo_reduce_scatter_*.csv"))
    assert [file.name.split("_")[4:6] for file in files] == [[k, r] for k in ("input", "output") for r in "01"]
    # Element i of rank r is r + 2 i; rank 1 gets the sums of elements 4 to 7.
    assert files[0].read_text().split() == ["0", "2", "4", "6", "8", "10", "12", "14"]
    assert files[3].read_text().split() == ["17", "21", "25", "29"]


def test_wrong_results_and_lost_ranks_are_told(tmp_path: Path) -> None:
    run = "--nranks 2 --test all_reduce --size 64 --loop 1"
    wrong, killed, stuck = call(run, run, run, cwd=tmp_path, faults=("wrong", "killed", "stuck"))
    assert wrong.status == 1
    assert re.search(r"^rank=0 size=64 <float> Input Buffer .* Output Buffer \[6 .* which is bad\.$", wrong.text, re.M)
    assert "index=0, expectedValue=1, value=6, thisRankId=0" in wrong.text
    assert "HCCL demo error: Collective operation has failed on correctness.\n" in wrong.text
    assert wrong.text.endswith("Exiting HCCL demo with code: 1\n")
    assert "[BENCHMARK]     NW Bandwidth" in wrong.text  # the figures do not depend on it

    assert killed.status == 1
    assert "HCCL demo error: rank 1 was killed by SIGKILL\n" in killed.text
    assert re.search(r"HCCL demo error: .*rank 1 .* has died", killed.text)

    assert stuck.status == 1
    assert "HCCL demo error: time is up (--timeout): ranks 0, 1 had not ended\n" in stuck.text


def test_two_nodes_meet_at_an_address(tmp_path: Path) -> None:
    environ = environment() | {"HCCL_COMM_ID": f"127.0.0.1:{free_port()}"}
    command = [sys.executable, "-m", "launcher.hccl_demo", "--nranks", "2", "--ranks_per_node", "1", "--loop", "20"]
    command += ["--test", "all_reduce", "--size", "1m", "--node_id"]
    nodes = [
        subprocess.Popen([*command, node], cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True)
        for node in ("1", "0")
    ]
    outputs = [node.communicate(timeout=200)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0]
    assert [Run(output, 0).checked for output in outputs] == [[1], [0]]  # each tells of its own ranks
    assert "[BENCHMARK]" not in outputs[0] and Run(outputs[1], 0).figure("Algo Bandwidth") > 0


@pytest.mark.parametrize("is_ours", [True, False], ids=["our mpirun", "their mpirun"])
def test_ranks_of_mpirun(tmp_path: Path, is_ours: bool) -> None:
    need("mpirun")
    ours = [sys.executable, "-m", "launcher.hccl_demo", "-mpi", "--test", "all_gather", "--size", "1k", "--loop", "20"]
    if is_ours:
        command = [*ours, "-np", "2"]
    else:
        command = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-np", "2", *ours]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    run = Run(done.stdout.replace("\r\n", "\n"), 0)
    assert run.checked == [0, 1] and run.figure("NW Bandwidth") > 0
    assert "HCCL demo runs in MPI mode" in run.text and "MPI enabled." in run.text
