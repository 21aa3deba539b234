"""The figures in the card files are those of the published measurements: the benchmarks that fit and show them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def benchmark(*arguments: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env={"PYTHONPATH": str(root), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_card_files_agree_with_the_fit() -> None:
    done = benchmark("benchmarks/calibrate.py", "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The card files agree with the fit." in done.stdout


def test_every_published_row_is_shown_and_the_goals_are_met() -> None:
    done = benchmark("benchmarks/microbench.py", "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = (ROOT / "benchmarks" / "data" / "microbench_calibration.csv").read_text().splitlines()[1:]
    table = done.stdout.split("\n\n")[0].splitlines()[1:]
    assert len(table) == len(rows)
    assert done.stdout.count("met") == 4 and "MISSED" not in done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the project's parts that a calibration touches."""
    for name in ("benchmarks", "collectives", "configs", "device"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "csrc"))
    return tmp_path


def test_a_calibration_restores_what_was_changed(copy: Path) -> None:
    """Other figures are found out by --check; --write puts the fit in and leaves the rest, byte for byte."""
    cards = copy / "configs" / "cards"
    before = {path.name: path.read_text() for path in cards.iterdir()}
    path = cards / "gaudi3.toml"
    path.write_text(
        path.read_text().replace("sustained_share = { bfloat16 = 0.8", "sustained_share = { bfloat16 = 0.7")
    )
    done = benchmark("benchmarks/calibrate.py", "--check", root=copy)
    assert done.returncode == 1
    assert "gaudi3: [mme] sustained_share" in done.stdout
    assert benchmark("benchmarks/calibrate.py", "--write", root=copy).returncode == 0
    assert {path.name: path.read_text() for path in cards.iterdir()} == before


def test_measurements_that_are_not_there() -> None:
    done = benchmark("benchmarks/calibrate.py", "nowhere.csv")
    assert done.returncode == 2
    assert "nowhere.csv is no file" in done.stderr and "Traceback" not in done.stderr
