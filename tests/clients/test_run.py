"""tests/clients/run.sh and its checks, with a made client and a Python that installs nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

PYTHON = f"""#!/bin/sh
case "$*" in
    -VV) echo "Python 3.11" ;;
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    "-m pip "*) echo "$*" >>"$PIP_LOG" ;;
    "-I -c "*ensure_built*) echo "building ..." >&2; exit "${{BUILD:-0}}" ;;
    *) exec {sys.executable} -S "$@" ;;
esac
"""

CLIENT = """#!/bin/sh
printf '%s\\n' ${FALLING-4 3 2 1} >"$LOSSES"
rank=0
while [ $rank -lt ${REPORTS-$CARDS} ]; do
    cat >"$HPUCLUSTER_REPORT/rank$rank.json" <<END
{"rank": $rank, "module": $rank, "mode": "lazy", "steps": 4, "recipe_cache": {"entries": ${RECIPES-2}},
 "memory": {"peak": 1048576}, "time": {"total": 1.0, "step": 0.25}, "collectives": {"count": 3}}
END
    rank=$((rank + 1))
done
eval "$MORE"
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """run.sh in a checkout with the one client "made"; keywords are environment variables."""
    folder = tmp_path / "checkout/tests/clients"
    (folder / "made").mkdir(parents=True)
    for name in ("run.sh", "check.py"):
        shutil.copy(HERE / name, folder)
    (folder / "made/requirements.txt").write_text("torch==2.14.1\n")
    for path, text in ((folder / "made/run", CLIENT), (tmp_path / "python", PYTHON)):
        path.write_text(text)
        path.chmod(0o755)
    (tmp_path / "checkout/constraints.txt").write_text("torch==2.13.0\nray==2.60.0\n")
    (tmp_path / "checkout/pyproject.toml").touch()

    def call(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        settings = {
            "PYTHON": str(tmp_path / "python"),
            "HPUCLUSTER_CLIENTS": str(tmp_path / "clients"),
            "PIP_LOG": str(tmp_path / "pip.log"),
        }
        return subprocess.run(
            [folder / "run.sh", *arguments],
            env={**os.environ, **settings, **environ},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return call


def test_a_client_is_run_on_one_and_on_two_cards(run: Run, tmp_path: Path) -> None:
    done = run("made")
    assert done.returncode == 0, done.stderr
    assert "made on 1 card(s):" in done.stdout and "made on 2 card(s):" in done.stdout
    assert "loss 4 -> 1 in 4 records" in done.stdout
    assert "rank 1: lazy mode, 4 steps, 2 recipes, peak 1.0 MB, 250000 us per step, collectives 3" in done.stdout
    # What the client pins itself is not constrained.
    assert (tmp_path / "clients/made/constraints.txt").read_text() == "ray==2.60.0\n"


def test_each_run_has_a_port_of_its_own(run: Run, tmp_path: Path) -> None:
    """Launchers that all take 29500 otherwise would join each other's jobs."""
    assert run("made", MORE=f'echo "$PORT" >>{tmp_path}/ports').returncode == 0
    ports = [int(line) for line in (tmp_path / "ports").read_text().split()]
    assert len(ports) == 2 and all(1024 <= port < 65536 for port in ports)


def test_an_environment_is_made_again_only_when_its_requirements_change(run: Run, tmp_path: Path) -> None:
    def installs() -> int:
        return len((tmp_path / "pip.log").read_text().splitlines())

    run("made", "--cards", "1")
    run("made", "--cards", "1")
    assert installs() == 1
    (tmp_path / "checkout/tests/clients/made/requirements.txt").write_text("torch==2.13.0\n")
    run("made", "--cards", "1")
    assert installs() == 2
    run("made", "--cards", "1", "--fresh")
    assert installs() == 3


def test_the_environment_serves_another_checkout_too(run: Run, tmp_path: Path) -> None:
    run("made", "--cards", "1")
    (tmp_path / "clients/made/checkout").write_text("/elsewhere\n")
    assert run("made", "--cards", "1").returncode == 0
    assert f"--no-deps --no-build-isolation -e {tmp_path}/checkout" in (tmp_path / "pip.log").read_text()


@pytest.mark.parametrize(
    ("environ", "fault"),
    [
        ({"FALLING": "2 2 2 1.9"}, "the loss does not fall: 2 in the first quarter of 4, 1.9 in the last"),
        ({"FALLING": "2 nan 1 1"}, "losses that are no finite number"),
        ({"FALLING": "2 1"}, "2 losses are too few"),
        ({"REPORTS": "1"}, "reports of ranks [0]; expected 2"),
        ({"RECIPES": "0"}, "rank 1: the report shows no recipes"),
        ({"MORE": "echo boom; exit 3"}, "boom"),
        ({"MORE": "sleep 30", "HPUCLUSTER_CLIENT_TIMEOUT": "1"}, "made on 2 cards has not ended in 1 s"),
    ],
)
def test_a_fault_is_told(run: Run, environ: dict[str, str], fault: str) -> None:
    done = run("made", "--cards", "2", **environ)
    assert done.returncode == 1
    assert fault in done.stderr
    assert "made failed on 2 card(s), status" in done.stderr


def test_a_bridge_that_cannot_be_built_is_told_before_the_client_starts(run: Run) -> None:
    done = run("made", BUILD="1")
    assert done.returncode == 1
    assert "building ..." in done.stderr and "made: the bridge to PyTorch could not be built (above)" in done.stderr
    assert "made on 1 card(s):" not in done.stdout
    assert "building" not in run("made").stderr


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("other",), "no client named 'other'; there are: made"),
        (("made", "--cards", "nine"), "--cards nine is not a number of cards in a box (1 to 8)"),
        (("--what", "made"), "no such option: --what"),
        ((), "Usage: tests/clients/run.sh"),
    ],
)
def test_a_wrong_command_line_is_told(run: Run, arguments: tuple[str, ...], fault: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert fault in done.stderr


def test_every_client_here_is_complete() -> None:
    listed = subprocess.run([HERE / "run.sh", "--list"], capture_output=True, text=True, check=True).stdout.split()
    assert listed == sorted(listed) and "transformers" in listed
    for name in listed:
        assert os.access(HERE / name / "run", os.X_OK), name
        assert all("==" in line for line in (HERE / name / "requirements.txt").read_text().splitlines()), name
