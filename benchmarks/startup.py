"""How long `hpurun` takes to the first training step, against `torchrun` with gloo on the CPU, on this
machine.

    python benchmarks/startup.py [--cards 8] [--rounds 2] [--check]

Both launch the same script (`scripts/first_step.py`) with as many ranks, in turn. A run's time goes from the
start of the launcher to the end of the last rank's first step. Ray's own start (`ray.init`) is shown apart.
The last line is the ratio of hpurun's time without Ray's own start to torchrun's, each the best of its
rounds; `--check` exits with 1 where it is above the goal.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

GOAL = 1.3
"""Largest ratio that is fine."""

SCRIPT = Path(__file__).resolve().parent / "scripts" / "first_step.py"
ROOT = SCRIPT.parent.parent.parent
HPURUN = "from launcher.hpurun import main; main()"
PATIENCE = 300.0
"""Seconds until a run is given up."""


@dataclass
class Start:
    """Seconds of wall time from a launcher's start to the first step of all ranks, and phases within."""

    total: float
    phases: dict[str, float]

    @property
    def without_ray(self) -> float:
        """The time without Ray's own start."""
        return self.total - self.phases.get("ray", 0.0)


def measure(command: list[str], ranks: int, environ: dict[str, str]) -> float:
    """Run `command` and return the seconds until the last of its `ranks` ranks has done its first step."""
    begin = time.time()
    result = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE)
    steps = [float(text) for text in re.findall(r"FIRST_STEP ([0-9.]+)", result.stdout)]
    if result.returncode != 0 or len(steps) != ranks:
        sys.exit(f"{' '.join(command)}: exit status {result.returncode}\n{result.stdout}\n{result.stderr}")
    return max(steps) - begin


def start_hpurun(cards: int) -> Start:
    """One start of `hpurun`, on hpu with hccl."""
    with tempfile.TemporaryDirectory() as folder:
        timings = Path(folder) / "timings.json"
        environ = {**environment(), "HPUCLUSTER_TIMINGS": str(timings)}
        options = ["--cards", str(cards), "--metrics-port", "0"]
        total = measure([sys.executable, "-c", HPURUN, *options, str(SCRIPT), "hpu"], cards, environ)
        return Start(total, json.loads(timings.read_text()))


def start_torchrun(ranks: int) -> Start:
    """One start of `torchrun`, on the CPU with gloo."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(ranks)]
    plain = {**environment(), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}  # the peer is PyTorch without us
    return Start(measure([*command, str(SCRIPT), "cpu"], ranks, plain), {})


def environment() -> dict[str, str]:
    """This process's environment with one thread per rank, as torchrun's default, and this repository's
    packages.
    """
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cards", type=int, default=8, help="ranks of both sides (default 8)")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each side (default 2)")
    parser.add_argument("--check", action="store_true", help=f"exit with 1 where the ratio is above {GOAL}")
    options = parser.parse_args()
    # The first start of all builds the native bridge; that belongs to the installation.
    subprocess.run([sys.executable, "-c", "import torch; torch.ones(1, device='hpu')"], env=environment(), check=True)
    ours, theirs = [], []
    for number in range(options.rounds):
        theirs.append(start_torchrun(options.cards))
        print(f"round {number}: torchrun, gloo, cpu: {theirs[-1].total:6.2f} s", flush=True)
        ours.append(start_hpurun(options.cards))
        phases = ours[-1].phases
        print(
            f"round {number}: hpurun, hccl, hpu:   {ours[-1].total:6.2f} s, of which Ray's own start"
            f" {phases['ray']:.2f} s, cards' start {phases['cards']:.2f} s",
            flush=True,
        )
    best = min(ours, key=lambda start: start.without_ray)
    reference = min(start.total for start in theirs)
    print(f"best, {options.cards} ranks on {os.cpu_count()} cores, seconds to the first step of all ranks:")
    print(f"  torchrun                     {reference:6.2f} s")
    print(f"  hpurun                       {best.total:6.2f} s")
    print(f"  hpurun without Ray's start   {best.without_ray:6.2f} s")
    ratio = best.without_ray / reference
    print(f"ratio {ratio:.2f} (goal: at most {GOAL})")
    return 1 if options.check and ratio > GOAL else 0


if __name__ == "__main__":
    sys.exit(main())
