"""draft"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent / "scripts"
ROOT = SCRIPTS.parent.parent
sys.path.insert(0, str(SCRIPTS))

from collective_orders import ADDRESS, RANK, RANKS  # noqa: E402 - lies in that folder

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
KIB, MIB = 1024, 1024 * 1024
SIZES = (4, 4 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 64 * MIB)


class World:
    """The ranks of one library, waiting for orders."""

    def __init__(self, name, commands, environ, folder, ranks):
        self.name = name
        address = str(folder / name)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        listener.listen(ranks)
        listener.settimeout(120)
        self.processes = []
        for number, command in enumerate(commands):
            env = {
                **os.environ,
                **environ,
                ADDRESS: address,
                RANK: str(number),
                RANKS: str(ranks),
                "COLLECTIVES_STORE": f"{folder}/{name}.store",
            }
            self.processes.append(subprocess.Popen(command, env=env))
        self.streams = []
        for _ in range(ranks):
            connection, _ = listener.accept()
            connection.settimeout(120)
            stream = connection.makefile("rw")
            stream.readline()
            self.streams.append(stream)

    def run(self, op, nbytes, repeats):
        for stream in self.streams:
            print(json.dumps([op, nbytes, repeats]), file=stream, flush=True)
        return max(json.loads(stream.readline()) for stream in self.streams)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ops", default=",".join(OPS))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worlds", default="hccl,gloo,mpi")
    parser.add_argument("--ranks", type=int, default=8)
    o = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    env = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    n = o.ranks
    worlds = []
    for name in o.worlds.split(","):
        if name == "hccl":
            worlds.append(
                World(name, [[sys.executable, str(SCRIPTS / "collective_torch.py"), "hccl", "hpu"]] * n, env, folder, n)
            )
        if name == "hcclcpu":
            worlds.append(
                World(name, [[sys.executable, str(SCRIPTS / "collective_torch.py"), "hccl", "cpu"]] * n, env, folder, n)
            )
        if name == "gloo":
            worlds.append(
                World(
                    name,
                    [[sys.executable, str(SCRIPTS / "collective_torch.py"), "gloo", "cpu"]] * n,
                    {**env, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
                    folder,
                    n,
                )
            )
        if name == "mpi":
            worlds.append(
                World(
                    name,
                    [
                        [
                            "mpirun",
                            "--oversubscribe",
                            "--allow-run-as-root",
                            "-np",
                            str(n),
                            "/usr/bin/python3",
                            str(SCRIPTS / "collective_mpi.py"),
                        ]
                    ],
                    {},
                    folder,
                    n,
                )
            )
    for op in o.ops.split(","):
        for size in map(int, o.sizes.split(",")) if op != "barrier" else [0]:
            reps = {}
            rows = {w.name: [] for w in worlds}
            for w in worlds:
                w.run(op, size, 2)
                t = w.run(op, size, 1 if size > MIB else 3)
                reps[w.name] = max(1, min(500, int(0.1 / t)))
            for _ in range(o.rounds):
                for w in worlds:
                    rows[w.name].append(w.run(op, size, reps[w.name]))
            print(
                f"{op:16s} {size:10d} "
                + "  ".join(f"{w.name} {statistics.median(rows[w.name]) * 1e3:9.3f} ms" for w in worlds),
                flush=True,
            )
    for w in worlds:
        for s in w.streams:
            s.close()
    for w in worlds:
        for p in w.processes:
            p.kill()


if __name__ == "__main__":
    main()
