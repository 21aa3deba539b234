"""One call of `hccl_demo` once its options are read: checks, header, ranks, exit status."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from collectives.roce.network import Network
from device.spec import chosen_card
from habana_frameworks import _shield
from hpucluster.placement import threads_per_rank

from .. import network_options
from . import model, mpirun
from .checks import Request, check_memory, check_node, settings_of
from .settings import STORE_VARIABLE, Settings, describe_boxes, rank_environment, to_environment
from .voice import Voice

FAILED = 1
"""Exit status of a test that could not be done, or whose results are wrong."""

VARIABLES = {"card": "HPUCLUSTER_CARD", **network_options.VARIABLES}
"""Environment variable of each option that says what cards there are, and what joins them."""


def run(request: Request) -> int:
    """Do what was asked for. Returns the exit status. Raises UserError."""
    # mpirun gives its ranks a terminal, whatever its own output is.
    voice = Voice(not request.no_color and not mpirun.is_started_by_mpi(os.environ))
    for option, variable in VARIABLES.items():
        if value := getattr(request, option):
            os.environ[variable] = value
    settings = settings_of(request, os.environ, Network.of_environment(chosen_card(), None).box.cards)
    if request.mpi:
        return _with_mpi(request, settings, voice)
    describe_boxes(settings)
    Network.of_environment(chosen_card(), settings.nranks)  # what is wrong with it is told before anything starts
    if request.model:
        voice.header(request)
        return 0 if model.run(settings) else voice.leave(FAILED, "Scale validation has failed on bandwidth.")
    return _without_mpi(request, settings, voice)


def _without_mpi(request: Request, settings: Settings, voice: Voice) -> int:
    address = os.environ.get("HCCL_COMM_ID") or None
    node = check_node(request, settings, address)
    own = range(node * settings.ranks_per_node, min((node + 1) * settings.ranks_per_node, settings.nranks))
    check_memory(settings, len(own))
    voice.header(request)
    _clean(request, voice)
    voice.say("HCCL demo runs in pure mode", "green")
    voice.say("HCCL demo test command line:", "green")
    voice.say("\n\n".join(_command(settings, number) for number in own))
    if request.timeout > 0:
        voice.say(f"Timeout is set to {request.timeout} minutes", "yellow")
    with contextlib.ExitStack() as stack:
        if address is None:
            # Not a TemporaryDirectory: a forked rank that ends first would remove it, and the store of the others.
            folder = tempfile.mkdtemp(prefix="hccl_demo-")
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            os.environ[STORE_VARIABLE] = f"{folder}/store"
        elif settings.nranks > len(own):
            click.echo(f"hccl_demo: node {node} waits for the others at {address}", err=True)
        if (threads := threads_per_rank(os.environ, len(own))) is not None:
            os.environ["OMP_NUM_THREADS"] = str(threads)
        # Loaded here, not above: it brings PyTorch, which nothing before needs.
        ranks = _shield.load("launcher.hccl_demo.ranks")
        try:
            ranks.run_ranks(settings, own, _seconds(request))
        except ranks.RankFailed as failure:
            return voice.leave(FAILED, str(failure))
    return 0


def _with_mpi(request: Request, settings: Settings, voice: Voice) -> int:
    if not mpirun.is_started_by_mpi(os.environ):
        line = mpirun.command_line(settings, request.mpi_arguments, request.ignore_mpi_errors)
        voice.header(request)
        _clean(request, voice)
        voice.say("HCCL demo runs in MPI mode", "green")
        voice.say("HCCL mpi command line:", "green")
        voice.say(" ".join(line))
        if request.timeout > 0:
            voice.say(f"Timeout is set to {request.timeout} minutes", "yellow")
        sys.stdout.flush()
        try:
            status = mpirun.run(line, request.ignore_mpi_errors, _seconds(request))
        except subprocess.TimeoutExpired:
            return voice.leave(FAILED, f"time is up (--timeout {request.timeout})")
        return voice.leave(FAILED, f"mpirun ended with exit code {status}") if status else 0
    os.environ.update(to_environment(settings))
    if int(os.environ["OMPI_COMM_WORLD_RANK"]) == 0:
        voice.header(request)
        _clean(request, voice)
        voice.say("HCCL demo runs in MPI mode", "green")
    sys.stdout.flush()
    outcome: int = _shield.load("launcher.hccl_demo.rank").run()
    return outcome


def _command(settings: Settings, number: int) -> str:
    variables = " ".join(f"{name}={value}" for name, value in rank_environment(settings, number).items())
    return f"{variables} {sys.executable} -m launcher.hccl_demo.rank"


def _seconds(request: Request) -> float | None:
    return request.timeout * 60.0 if request.timeout > 0 else None


def _clean(request: Request, voice: Voice) -> None:
    """Remove what earlier runs have left here: data files, and the results file that this one would add to."""
    if not request.clean:
        return
    folders = {Path("."), Path(request.data_csv or ".")}
    files: list[Path] = [file for folder in folders for file in folder.glob("HCCL_demo_*.csv")]
    if request.result_csv:
        files.append(Path(request.result_csv))
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
            voice.say(f"Cleaning: {file}")
