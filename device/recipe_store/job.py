"""Which job this process belongs to: all ranks that one command has started.

A rank must not use what a sibling has just written: whether it finds it would depend on which of them runs faster on
this machine, and so would the modelled time. And a rank that empties the folder at its start must spare it.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from .fingerprint import digest

# Set by what starts ranks, the same for all of them and different for the next job.
_JOB_VARIABLES = (
    ("HPUCLUSTER_JOB_ID",),
    ("TORCHELASTIC_RUN_ID",),
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("PMIX_NAMESPACE",),
    ("PMI_JOBID",),
)
_NO_NAME = ("", "none")  # torchrun's run id where the user gave none


def job_of(environ: Mapping[str, str]) -> str:
    """A short hash that is the same for all ranks of a job.

    From the launcher's own job number where there is one; else the ranks' common parent process, and then ranks on
    other machines count as another job; a process that is no rank is a job by itself.
    """
    is_rank = any(name in environ for name in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"))
    if is_rank:
        for names in _JOB_VARIABLES:
            values = [environ.get(name, "") for name in names]
            if not any(value in _NO_NAME for value in values):
                return digest(" ".join(("job", *names, *values)))[:16]
    process = os.getppid() if is_rank or multiprocessing.parent_process() else os.getpid()
    return digest(f"process {socket.gethostname()} {process} {_started(process)}")[:16]


def _started(process: int) -> str:
    """When the process started, so that a number that is used again is told apart; empty where it cannot be known."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    return f"{boot} {fields[19]}"
