"""The example, on one card and on several: what the recompilation tutorial shows, and that ranks agree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import Script

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "mnist.py"


def counts(output: str) -> list[int]:
    return [int(number) for number in re.findall(r"'TotalNumber', (\d+)", output)]


@pytest.mark.slow
def test_a_constant_batch_needs_two_graphs(script: Script) -> None:
    output = script(
        EXAMPLE, "--hpu", "--autocast", "--metrics", "--batch-size", "128", "--train-samples", "4000"
    ).stdout
    assert counts(output) == [0, 2, 2, 2]  # read before anything joined the first compilation, then for good
    averages = [float(number) for number in re.findall(r"'AvgTime', ([\d.]+)", output)]
    assert averages[-1] == pytest.approx(295703, rel=0.03)  # microseconds, as the tutorial saw


@pytest.mark.slow
def test_a_growing_batch_compiles_at_every_step(script: Script) -> None:
    arguments = ("--autocast", "--metrics", "--batch-size", "25", "--train-samples", "1275", "--dynamic")
    output = script(EXAMPLE, "--hpu", *arguments).stdout
    assert counts(output) == [0, 10, 20, 24, 24, 24]  # at most batch size - 1


@pytest.mark.slow
@pytest.mark.parametrize("lazy", ["1", "0"])
def test_ranks_end_with_the_same_parameters(lazy: str) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [*torchrun, str(EXAMPLE), "--hpu", "--train-samples", "640"],
        capture_output=True,
        text=True,
        env=os.environ | {"PT_HPU_LAZY_MODE": lazy},
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    checksums = re.findall(r"parameters of rank \d: (\w{16})", done.stdout)
    assert len(checksums) == 2 and len(set(checksums)) == 1


def test_metrics_without_a_card_are_refused(script: Script) -> None:
    done = script(EXAMPLE, "--metrics", check=False)
    assert done.returncode == 2
    assert "add --hpu" in done.stderr
