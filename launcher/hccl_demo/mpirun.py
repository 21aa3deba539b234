"""`-mpi`: our own call of mpirun, and what it says to the ranks that it starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

from hpucluster.placement import LOOPBACK, free_port

from .. import network_options
from ..messages import UserError
from .settings import Settings, to_environment

PROGRAM = "from habana_frameworks import _shield; _shield.load('launcher.hccl_demo.rank').main()"
PASSED_ON = (
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "HCCL_COMM_ID",
    "HPUCLUSTER_CARD",
    *network_options.VARIABLES.values(),
)
"""Variables that machines far away get too, where they are set."""

_PLACES = ("-H", "-host", "--host", "-hostfile", "--hostfile", "-machinefile", "--machinefile", "--default-hostfile")
_IGNORED_ERRORS = ("--mca", "btl_openib_warn_no_device_params_found", "0")
"""What the real wrapper adds for --ignore_mpi_errors."""


def is_started_by_mpi(environ: Mapping[str, str]) -> bool:
    """Whether this process is a rank already: `mpirun hccl_demo -mpi ...`."""
    return "OMPI_COMM_WORLD_RANK" in environ


def command_line(settings: Settings, arguments: Sequence[str], ignore_errors: bool) -> list[str]:
    """mpirun with the user's own `arguments`, what it needs to start more ranks than there are cores, and the ranks.

    Raises:
        UserError: there is no mpirun; or ranks are to run elsewhere, and nothing says where they meet.
    """
    program = shutil.which("mpirun")
    if program is None:
        raise UserError("-mpi: there is no mpirun on the path; install OpenMPI, or leave -mpi out and give --nranks")
    is_here = not any(argument.split("=")[0] in _PLACES for argument in arguments)
    if not is_here and not os.environ.get("HCCL_COMM_ID"):
        raise UserError(
            "-mpi with hosts: the ranks do not know where to meet; set HCCL_COMM_ID to the address of rank 0's machine"
            " and a free port there: HCCL_COMM_ID=10.0.0.1:5555"
        )
    line = [program, *arguments]
    for variable, value in to_environment(settings).items():
        line += ["-x", f"{variable}={value}"]
    for variable in PASSED_ON:
        if variable in os.environ:
            line += ["-x", variable]
    if is_here:
        if not os.environ.get("HCCL_COMM_ID"):
            line += ["-x", f"HCCL_COMM_ID={LOOPBACK}:{free_port()}"]
        line += [option for option in ("--oversubscribe",) if option not in arguments]
    if "--bind-to" not in arguments and "-bind-to" not in arguments:
        line += ["--bind-to", "none"]  # emulated cards are not near to any core
    if os.geteuid() == 0 and "--allow-run-as-root" not in arguments:
        line.append("--allow-run-as-root")
    if ignore_errors:
        line += _IGNORED_ERRORS
    return [*line, sys.executable, "-c", PROGRAM]


def run(line: Sequence[str], ignore_errors: bool, timeout_s: float | None) -> int:
    """Run mpirun; its exit status.

    Raises:
        subprocess.TimeoutExpired: it, and so all ranks, had not ended in time and was ended.
    """
    environ = os.environ | ({"HWLOC_HIDE_ERRORS": "1"} if ignore_errors else {})
    with subprocess.Popen(line, env=environ) as process:
        try:
            return process.wait(timeout_s)
        except BaseException:
            process.terminate()  # mpirun ends its ranks
            raise
