"""Run PyTorch's operator database on hpu and write a table of what passed, failed, was refused or skipped, and why."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from .worker import operators

ROOT = Path(__file__).resolve().parents[3]


class Worker:
    """A process that runs operators, started again when one of them takes it down."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.device.operator_database.worker"],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log.open("a"),
            text=True,
        )

    def ask(self, question: list[Any], seconds: float) -> dict[str, Any]:
        """The worker's answer; a crash or a timeout is an answer, too."""
        fresh = self._process is None
        if self._process is None:
            self._process = self._start()
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], seconds + 60 * fresh)
        line = self._process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        if not ready:
            self._process.kill()
        status = self._process.wait()
        self._process = None
        reason = f"the process ended with status {status}" if ready else f"took more than {seconds:g} s"
        return {"status": "failed", "reason": f"[crash] {reason}", "samples": 0}

    def close(self) -> None:
        if self._process is not None and self._process.stdin:
            self._process.stdin.close()
            self._process.wait()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.device.operator_database", description=__doc__)
    parser.add_argument("--mode", choices=("lazy", "eager"), default="lazy")
    parser.add_argument("--numerics", choices=("on", "off"), default="on", help="off: shapes, dtypes and strides only")
    parser.add_argument("--ops", default="*", help="pattern of operator names, such as 'nn.functional.*'")
    parser.add_argument(
        "--dtypes", default="", help="comma-separated dtypes, and `errors` for wrong arguments; default: all"
    )
    parser.add_argument("--samples", type=int, default=4, help="samples of each operator and dtype")
    parser.add_argument("--all", action="store_true", help="all samples")
    parser.add_argument("--timeout", type=float, default=90.0, help="seconds for one operator and dtype")
    parser.add_argument("--table", type=Path, default=Path("operator_database.tsv"))
    return parser.parse_args()


def main() -> int:
    chosen = arguments()
    environment = os.environ | {
        "PT_HPU_LAZY_MODE": "1" if chosen.mode == "lazy" else "0",
        "HPUCLUSTER_NUMERICS": chosen.numerics,
        "OMP_NUM_THREADS": "1",
        "HABANA_PGM_LRU_MAX": "200",  # each graph here is another one
    }
    wanted = {name.removeprefix("torch.") for name in chosen.dtypes.split(",") if name}
    worker = Worker(environment, chosen.table.with_suffix(".log"))
    counts: Counter[tuple[str, str]] = Counter()
    started = time.monotonic()
    with chosen.table.open("w") as table:
        print("operator", "dtype", "status", "samples", "seconds", "reason", sep="\t", file=table)
        for name, op in operators().items():
            if not fnmatch.fnmatch(name, chosen.ops):
                continue
            dtypes = sorted(str(dtype).removeprefix("torch.") for dtype in op.supported_dtypes("cpu"))
            for dtype in [*dtypes, "errors"] if chosen.numerics == "on" else dtypes:
                if wanted and dtype not in wanted:
                    continue
                begun = time.monotonic()
                most = None if chosen.all else chosen.samples
                result = worker.ask([name, dtype, most, chosen.numerics == "on"], chosen.timeout)
                seconds = f"{time.monotonic() - begun:.2f}"
                reason = " ".join(result["reason"].split())
                row = (name, dtype, result["status"], result["samples"], seconds, reason)
                print(*row, sep="\t", file=table, flush=True)
                counts[dtype, result["status"]] += 1
    worker.close()
    print(f"{chosen.mode}, numerics {chosen.numerics}: {time.monotonic() - started:.0f} s, table in {chosen.table}")
    columns = ("passed", "failed", "refused", "skipped")
    print("| dtype |", " | ".join(columns), "|")
    for dtype in sorted({dtype for dtype, _ in counts}):
        print(f"| {dtype} |", " | ".join(str(counts[dtype, column]) for column in columns), "|")
    total = [sum(count for (_, status), count in counts.items() if status == column) for column in columns]
    print("| all |", " | ".join(map(str, total)), "|")
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main())
