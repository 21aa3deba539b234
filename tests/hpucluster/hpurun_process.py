"""Runs `hpurun` as a user does, in a process of its own, for the tests of this folder."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

STUB = "from launcher.hpurun import main\n\nmain()\n"
"""What pip writes as the console script."""

CHOICE = (
    "HABANA_VISIBLE_DEVICES",
    "HABANA_VISIBLE_MODULES",
    "HPUCLUSTER_CARD",
    "HPUCLUSTER_NUMERICS",
    "OMP_NUM_THREADS",
    "RANK",
    "PYTEST_CURRENT_TEST",
)


def write(folder: Path, name: str, text: str) -> Path:
    """Write a file below `folder`; its text may be indented as in the test."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def command(folder: Path, arguments: Sequence[str]) -> list[str]:
    """The command line of `hpurun`; its console script is written into a folder below `folder`."""
    stub = folder / "bin" / "hpurun"
    stub.parent.mkdir(exist_ok=True)
    stub.write_text(STUB)
    return [sys.executable, str(stub), *arguments]


def environment(**changes: str) -> dict[str, str]:
    """This process's environment without a choice of cards, with `changes`."""
    environ = {name: value for name, value in os.environ.items() if name not in CHOICE}
    return {**environ, "HPUCLUSTER_TEST": "yes", **changes}


def hpurun(folder: Path, *arguments: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `hpurun` in `folder` without metrics and wait for its end."""
    return subprocess.run(
        command(folder, ["--metrics-port", "0", *arguments]),
        cwd=folder,
        env=environment(**environ),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
    )


def start_hpurun(folder: Path, *arguments: str, **environ: str) -> subprocess.Popen[str]:
    """Start `hpurun` in `folder` and in a session of its own; both outputs come together."""
    return subprocess.Popen(
        command(folder, arguments),
        cwd=folder,
        env=environment(**environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def lines_of(text: str, rank: int) -> list[str]:
    """The lines of one rank, without their prefix."""
    prefix = f"[rank {rank}] "
    return [line.removeprefix(prefix) for line in text.splitlines() if line.startswith(prefix)]


def running(marker: str) -> list[str]:
    """Command lines of the processes, zombies left out, whose command or environment contains `marker`."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            if (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
                continue
            command_line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if marker in command_line or marker.encode() in (process / "environ").read_bytes():
                found.append(command_line)
        except OSError:  # ended meanwhile
            continue
    return found


def wait_until_none_runs(marker: str, patience: float = 20.0) -> list[str]:
    """Wait until `running` finds none; returns what it still finds after `patience` seconds."""
    deadline = time.monotonic() + patience
    while (left := running(marker)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left
