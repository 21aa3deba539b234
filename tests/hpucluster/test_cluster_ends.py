"""Whole jobs with a real Ray: how they end, and that nothing stays behind."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .hpurun_process import hpurun, lines_of, running, start_hpurun, wait_until_none_runs, write

pytestmark = pytest.mark.slow

# ---- failures

FAILURES = {
    "raise": ("raise ValueError('no good')", 1, "failed: ValueError: no good"),
    "exit": ("sys.exit(3)", 3, "failed: exit status 3"),
    "message": ("sys.exit('goodbye')", 1, "failed: goodbye"),
    "os-exit": ("os._exit(5)", 5, "ended with exit status 5"),
    "kill": ("os.kill(os.getpid(), 9)", 137, "was killed by signal 9 (SIGKILL)"),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_first_failure_ends_the_job(tmp_path: Path, kind: str) -> None:
    code, status, text = FAILURES[kind]
    write(
        tmp_path,
        "train.py",
        f"""
        import os, subprocess, sys, time
        subprocess.Popen(["sleep", "100"])
        print("before", end="", flush=True)
        if os.environ["RANK"] == "1":
            time.sleep(0.5)
            {code}
        time.sleep(100)
        """,
    )
    begin = time.monotonic()
    result = hpurun(tmp_path, "--cards", "2", "train.py", HPUCLUSTER_TEST=f"failure-{tmp_path}")
    assert time.monotonic() - begin < 60
    assert result.returncode == status, result.stderr
    assert result.stderr.splitlines()[-1].startswith(f"hpurun: rank 1 (gaudi2, module 1) {text}")
    assert lines_of(result.stdout, 0) == lines_of(result.stdout, 1) == ["before"]
    if kind == "raise":
        trace = lines_of(result.stderr, 1)
        assert trace[0] == "Traceback (most recent call last):" and trace[-1] == "ValueError: no good"
        assert trace[1].startswith(f'  File "{tmp_path}/train.py", line ')
    if kind == "message":
        assert lines_of(result.stderr, 1) == ["goodbye"]
    assert wait_until_none_runs(f"failure-{tmp_path}") == []


# ---- the end of the launcher itself


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A job of two ranks that wait, once both do, and the marker in its processes' environment."""
    write(
        tmp_path,
        "train.py",
        """
        import subprocess, time
        subprocess.Popen(["sleep", "100"])
        print("waiting", flush=True)
        time.sleep(100)
        """,
    )
    marker = f"waiting-{tmp_path}"
    job = start_hpurun(tmp_path, "--metrics-port", "0", "--cards", "2", "train.py", HPUCLUSTER_TEST=marker)
    assert job.stdout is not None
    count = 0
    while count < 2:
        line = job.stdout.readline()
        assert line, "the job ended before its ranks waited"
        count += line.endswith("waiting\n")
    yield job, marker
    if job.poll() is None:
        job.kill()
    job.stdout.close()
    wait_until_none_runs(marker)


def left(pid: int) -> list[Path]:
    """The job's folder and shared memory that stay; of Ray's object store there is a file for a moment in any job."""
    deadline = time.monotonic() + 20
    while True:
        found = [
            *Path("/tmp").glob(f"hpurun-{pid}-*"),
            *Path("/dev/shm").glob("plasma*"),
            *Path("/dev/shm").glob(f"hpucluster-{pid}-*"),
        ]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_everything(
    waiting: tuple[subprocess.Popen[str], str], number: signal.Signals, status: int
) -> None:
    job, marker = waiting
    assert len(running(marker)) > 4
    job.send_signal(number)
    assert job.wait(60) == status
    assert job.stdout is not None
    assert f"hpurun: interrupted by {number.name}; all ranks have ended" in job.stdout.read()
    assert wait_until_none_runs(marker) == []
    assert left(job.pid) == []


def test_ranks_end_when_the_launcher_is_killed(waiting: tuple[subprocess.Popen[str], str]) -> None:
    job, marker = waiting
    job.kill()
    job.wait()
    assert wait_until_none_runs(marker) == []
    assert left(job.pid) == []


def test_interrupt_while_the_cards_start(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "print('ran')")
    marker = f"starting-{tmp_path}"
    job = start_hpurun(tmp_path, "--metrics-port", "0", "--cards", "2", "train.py", HPUCLUSTER_TEST=marker)
    assert job.stdout is not None
    assert "starting" in job.stdout.readline()
    job.send_signal(signal.SIGINT)
    assert job.wait(60) == 130
    assert "ran" not in job.stdout.read().replace("ranks", "")
    job.stdout.close()
    assert wait_until_none_runs(marker) == []
    assert left(job.pid) == []


def test_job_ends_when_nobody_reads_its_output(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "while True: print('line')")
    marker = f"pipe-{tmp_path}"
    job = start_hpurun(tmp_path, "--metrics-port", "0", "--cards", "2", "train.py", HPUCLUSTER_TEST=marker)
    assert job.stdout is not None
    while "line" not in job.stdout.readline():
        pass
    job.stdout.close()
    assert job.wait(60) == 128 + signal.SIGPIPE
    assert wait_until_none_runs(marker) == []
