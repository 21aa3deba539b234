"""A report's log: replayed on the card of the run it gives the report's own figures, and its report compares cards."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from .hpurun_process import command, environment, hpurun
from .test_cluster_reproducible import SCRIPT

pytestmark = pytest.mark.slow


def test_a_run_and_its_replay_agree(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    assert hpurun(tmp_path, "--cards", "2", "--report", "run.json", "train.py").returncode == 0
    report = json.loads((tmp_path / "run.json").read_text())
    arguments = command(tmp_path, ["replay", "run.json", "--card", "gaudi3", "--report", "both.json"])
    done = subprocess.run(arguments, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    both = json.loads((tmp_path / "both.json").read_text())
    for card, recorded in zip(report["cards"], both["recorded"], strict=True):
        assert recorded["time"] == card["time"]
        assert recorded["steps"] == card["steps"] == 6
        assert recorded["collectives"] == card["collectives"]
    assert both["unmatched"] == 0
    assert both["ratios"][0]["device"] > 1
