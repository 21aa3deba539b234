"""Collectives of eight ranks on this machine: ours (hpu tensors, backend `hccl`) beside gloo and beside OpenMPI (CPU
memory).

    python benchmarks/collectives.py [--check] [--quick] [--ops all_reduce,...] [--sizes 4,4096,...] [--rounds 3]

All three libraries' ranks run in the same session and take turns; those that do not measure sleep. A figure is the
median over the rounds of the slowest rank's wall time for one operation, of float32. A size is that of the tensor of
an all_reduce, reduce, broadcast or message; of the whole that is divided among the ranks, or put together from them, in
the others (where each block has at least one element). send_recv is one message in each of four pairs at a time.

OpenMPI needs Debian's packages openmpi-bin, python3-mpi4py and python3-numpy; its ranks run in /usr/bin/python3.

*The bound.* Whatever the algorithm, the data of eight private tensors must be read once by the process that owns it
(nobody else can), combined in a fixed order, and written once by that process. Our all_reduce passes partial sums from
rank to rank through buffers in shared memory that stay in the caches. So each process has to read its whole tensor and
add it to the buffer (rank 0: copy it there, the last rank: write the result to its tensor, too), and all but the last
have to copy the result from the buffer to their tensor: at 64 MiB, 512 MiB read and 512 MiB written in tensors, and as
much in the buffers. The bound is the time for just these copies and sums, by the same native loops in the same chunks,
in the same eight processes at the same time and on the same tensors, but each with buffers of its own (all together as
large as ours) and without any synchronisation between the start and the end. It is measured in the same rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.collective_orders import ADDRESS, RANK, RANKS, STORE

SCRIPTS = Path(__file__).resolve().parent / "scripts"
ROOT = SCRIPTS.parent.parent
KIB, MIB = 1024, 1024 * 1024
OPS = (
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "gather",
    "scatter",
    "send_recv",
    "barrier",
)
SIZES = (4, 4 * KIB, 64 * KIB, 256 * KIB, 4 * MIB, 64 * MIB)
QUICK_SIZES = (4 * KIB, 4 * MIB, 64 * MIB)
OURS, GLOO, MPI = "hccl", "gloo", "OpenMPI"
BOUND = "bound"
DEBIAN_PYTHON = "/usr/bin/python3"
MPI_PACKAGES = "openmpi-bin python3-mpi4py python3-numpy"
PATIENCE = 180.0
"""Seconds until a rank that does not answer is given up."""

GLOO_GOALS = {("all_reduce", 64 * MIB): 4.0, ("all_reduce", 4 * KIB): 50.0}
"""How many times faster than gloo; everything else: at least as fast."""
MPI_GOALS = {("all_reduce", 64 * MIB): 1.3, ("all_reduce", 4 * MIB): 1.0}
BOUND_SIZE, BOUND_GOAL = 64 * MIB, 1.3


class World:
    """The ranks of one library, waiting for orders."""

    def __init__(self, name: str, commands: Sequence[Sequence[str]], ranks: int, folder: Path, **environ: str) -> None:
        self.name = name
        address = folder / name
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(address))
            listener.listen(ranks)
            listener.settimeout(PATIENCE)
            self._processes = []
            for number, command in enumerate(commands):
                orders = {ADDRESS: str(address), RANK: str(number), RANKS: str(ranks), STORE: f"{address}.store"}
                self._processes.append(subprocess.Popen(command, env={**os.environ, **environ, **orders}))
            try:
                self._streams = [self._accepted(listener) for _ in range(ranks)]
            except TimeoutError:
                sys.exit(f"the ranks of {name} do not start; see above")

    @staticmethod
    def _accepted(listener: socket.socket):
        connection, _ = listener.accept()
        connection.settimeout(PATIENCE)
        stream = connection.makefile("rw")
        stream.readline()
        return stream

    def seconds(self, op: str, nbytes: int, repeats: int) -> float:
        """Wall time of one operation at the slowest rank, on average over `repeats`."""
        for stream in self._streams:
            print(json.dumps([op, nbytes, repeats]), file=stream, flush=True)
        try:
            answers = [stream.readline() for stream in self._streams]
        except TimeoutError:
            sys.exit(f"{self.name}: {op} of {nbytes} bytes is not over after {PATIENCE:g} s")
        if not all(answers):
            sys.exit(f"{self.name}: a rank has ended in {op} of {nbytes} bytes; see above")
        return max(map(json.loads, answers))

    def end(self) -> None:
        for stream in self._streams:
            stream.close()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def torch_world(name: str, backend: str, device: str, ranks: int, folder: Path, **environ: str) -> World:
    """Ranks of torch.distributed."""
    command = [sys.executable, str(SCRIPTS / "collective_torch.py"), backend, device]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    quiet = {"OMP_NUM_THREADS": "1", "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}
    return World(name, [command] * ranks, ranks, folder, **quiet, **environ)


def has_mpi() -> bool:
    """Are the Debian packages there?"""
    found = subprocess.run([DEBIAN_PYTHON, "-c", "import mpi4py, numpy"], capture_output=True, check=False)
    return found.returncode == 0 and shutil.which("mpirun") is not None


def mpi_world(ranks: int, folder: Path) -> World:
    """Ranks of OpenMPI, which yield the processor while they wait, as there are more than cores."""
    # --allow-run-as-root: in containers there is often nobody else.
    command = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-np", str(ranks)]
    return World(MPI, [[*command, DEBIAN_PYTHON, str(SCRIPTS / "collective_mpi.py")]], ranks, folder)


def repeats_for(seconds: float, budget: float) -> int:
    return max(1, min(300, int(budget / seconds)))


def measure(worlds: Sequence[World], op: str, nbytes: int, rounds: int, budget: float) -> dict[str, float]:
    """Median seconds of one operation, by library; with the bound, where there is one."""
    turns = [(world.name, world, op) for world in worlds]
    if op == "all_reduce" and nbytes == BOUND_SIZE:
        turns.insert(1, (BOUND, worlds[0], "all_reduce_bound"))
    repeats = {}
    for name, world, what in turns:
        world.seconds(what, nbytes, 1)  # makes the tensors, and what else is made once
        repeats[name] = repeats_for(world.seconds(what, nbytes, 2), budget)
    rows: dict[str, list[float]] = {name: [] for name in repeats}
    for _ in range(rounds):
        for name, world, what in turns:
            rows[name].append(world.seconds(what, nbytes, repeats[name]))
    return {name: statistics.median(row) for name, row in rows.items()}


def size_text(nbytes: int) -> str:
    for unit, text in ((MIB, "MiB"), (KIB, "KiB")):
        if nbytes >= unit:
            return f"{nbytes / unit:g} {text}"
    return f"{nbytes} B"


def misses(op: str, nbytes: int, took: dict[str, float]) -> list[str]:
    """The goals that these figures miss, in words."""
    found = []
    ours = took[OURS]
    goals = [(GLOO, GLOO_GOALS.get((op, nbytes), 1.0))]
    if (op, nbytes) in MPI_GOALS:
        goals.append((MPI, MPI_GOALS[op, nbytes]))
    for name, goal in goals:
        if name in took and took[name] / ours < goal:
            found.append(
                f"{op} of {size_text(nbytes)} is {took[name] / ours:.2f} times as fast as {name}'s "
                f"({ours * 1e3:.3f} ms against {took[name] * 1e3:.3f} ms; goal: {goal:g})"
            )
    if BOUND in took and ours / took[BOUND] > BOUND_GOAL:
        found.append(f"{op} of {size_text(nbytes)} takes {ours / took[BOUND]:.2f} times the bound (goal: {BOUND_GOAL})")
    return found


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--ops", help=f"of {','.join(OPS)} (default: all)")
    parser.add_argument("--sizes", help=f"bytes (default: {','.join(map(str, SIZES))})")
    parser.add_argument("--ranks", type=int, default=8, help="ranks of each library (default 8)")
    parser.add_argument("--rounds", type=int, help="turns of each library (default 5; 3 with --quick)")
    parser.add_argument("--quick", action="store_true", help="fewer sizes, rounds and repetitions")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a goal is missed")
    chosen = parser.parse_args()
    chosen.ops = chosen.ops.split(",") if chosen.ops else list(OPS)
    for op in chosen.ops:
        if op not in OPS:
            parser.error(f"--ops: no operation {op!r}; there are {', '.join(OPS)}")
    try:
        chosen.sizes = [int(text) for text in chosen.sizes.split(",")] if chosen.sizes else []
    except ValueError:
        parser.error(f"--sizes: {chosen.sizes!r} is not numbers of bytes, such as 4096,1048576")
    chosen.sizes = chosen.sizes or list(QUICK_SIZES if chosen.quick else SIZES)
    chosen.rounds = chosen.rounds or (3 if chosen.quick else 5)
    if chosen.ranks < 2 or chosen.ranks % 2:
        parser.error(f"--ranks: {chosen.ranks} is not an even number of ranks")
    return chosen


def main() -> int:
    """Measure, print, and return the exit status."""
    chosen = options()
    missed = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        worlds = [
            torch_world(OURS, "hccl", "hpu", chosen.ranks, folder),
            torch_world(GLOO, "gloo", "cpu", chosen.ranks, folder, TORCH_DEVICE_BACKEND_AUTOLOAD="0"),
        ]
        if has_mpi():
            worlds.append(mpi_world(chosen.ranks, folder))
        else:
            missed.append(f"no figures of OpenMPI: apt-get install {MPI_PACKAGES}")
        print(f"{chosen.ranks} ranks on {os.cpu_count()} cores; milliseconds, and how many times faster ours is")
        print(f"{'':16}{'':>8} {OURS:>10}" + "".join(f" {world.name:>10}{'':9}" for world in worlds[1:]))
        for op in chosen.ops:
            for nbytes in [0] if op == "barrier" else chosen.sizes:
                took = measure(worlds, op, nbytes, chosen.rounds, 0.05 if chosen.quick else 0.12)
                ours = took[OURS]
                row = f"{op:16}{size_text(nbytes):>8} {ours * 1e3:10.3f}"
                row += "".join(f" {took[w.name] * 1e3:10.3f} ({took[w.name] / ours:5.1f}x)" for w in worlds[1:])
                if BOUND in took:
                    row += f"  {took[BOUND] * 1e3:.3f} of it copies and sums: {ours / took[BOUND]:.2f} times the bound"
                print(row, flush=True)
                missed += misses(op, nbytes, took)
        for world in worlds:
            world.end()
    for text in missed:
        print(f"missed: {text}")
    if not missed:
        print("all goals are met")
    return 1 if chosen.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
