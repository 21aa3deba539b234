"""Calls `hccl_demo` again and again in one process, so that PyTorch is loaded once for many runs.

    python hccl_demo_driver.py '[{"arguments": ["--nranks", "2"], "fault": ""}]'

Faults: `wrong` has rank 0 put other data in than it should, `killed` has rank 1 killed when it begins, `stuck` has it
stay, with a time-out of a second. After each run stands a line `STATUS n`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from habana_frameworks import _shield

command = _shield.load("launcher.hccl_demo.command")
rank = _shield.load("launcher.hccl_demo.rank")
session = _shield.load("launcher.hccl_demo.session")
ORIGINAL = {"fill": rank.fill, "_run_sizes": rank._run_sizes, "_seconds": session._seconds}


def wrong(tensor: Any, number: int, ranks: int) -> None:
    ORIGINAL["fill"](tensor, 5 if number == 0 else number, ranks)


def killed(job: Any) -> None:
    if job.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    ORIGINAL["_run_sizes"](job)


def stuck(job: Any) -> None:
    if job.rank == 1:
        time.sleep(100)
    ORIGINAL["_run_sizes"](job)


def main() -> None:
    environment = dict(os.environ)
    for run in json.loads(sys.argv[1]):
        fault = run["fault"]
        rank.fill = wrong if fault == "wrong" else ORIGINAL["fill"]
        rank._run_sizes = {"killed": killed, "stuck": stuck}.get(fault, ORIGINAL["_run_sizes"])
        session._seconds = (lambda request: 1.0) if fault == "stuck" else ORIGINAL["_seconds"]
        os.environ.clear()
        os.environ.update(environment)
        sys.argv[1:] = run["arguments"]
        try:
            command.main()
        except SystemExit as ended:
            print(f"STATUS {ended.code or 0}", flush=True)


main()
