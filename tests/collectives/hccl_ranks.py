"""Runs a function in several real processes that form a process group."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import collectives
from collectives.transport import native as data_plane
from device.backend import native

HOST = "hccl_host"  # the hccl process group for CPU tensors, so that most tests need no card
SHM = "/dev/shm"
Job = Callable[..., Any]

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)  # children look up the job's function as tests.collectives.<module>

for library in (native, data_plane):
    library.ensure_built()  # once here, instead of in every child

_PARALLEL = (
    "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.optim",
    "torch.distributed.pipelining",
    "torch.distributed.tensor.parallel",
)

# Children are forked from one server that has imported everything, which takes milliseconds instead of seconds.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch", "torch.distributed", "collectives", "hypothesis", "pytest", *_PARALLEL])


@dataclass
class Outcome:
    """What a rank did: its job's value, or the error's type and text; `seconds` from the job's start to its end."""

    value: Any = None
    error: str = ""
    text: str = ""
    seconds: float = 0.0
    exitcode: int | None = None


_BEGUN = "begun"
_own_pipe: Connection | None = None  # in a rank


def tell_begun() -> None:
    """For a job: this rank is in the middle of its work, which `on_begun` waits for."""
    assert _own_pipe is not None
    _own_pipe.send(_BEGUN)


def reduce_until_killed(elements: int) -> None:
    """For a job: all-reduces one after another, for ever."""
    data = torch.ones(elements)
    dist.all_reduce(data)
    tell_begun()
    while True:
        dist.all_reduce(data.fill_(1))


def join(rank: int, size: int, setup: dict[str, Any]) -> None:
    """Make the process group that `setup` describes."""
    dist.init_process_group(
        setup["backend"],
        init_method=f"file://{setup['store']}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=setup["timeout"]),
    )


def _main(rank: int, size: int, job: Job, arguments: tuple[Any, ...], setup: dict[str, Any], pipe: Connection) -> None:
    global _own_pipe
    _own_pipe = pipe
    os.environ.update(setup["environ"])
    if setup["machines"]:
        os.environ["HPUCLUSTER_MACHINE"] = setup["machines"][rank]
    torch.set_num_threads(1)
    collectives.register(HOST, ["cpu"])
    outcome = Outcome()
    start = time.monotonic()
    try:
        if setup["backend"]:
            join(rank, size, setup)
        start = time.monotonic()
        outcome.value = job(rank, size, *arguments)
    except BaseException as error:
        outcome.error, outcome.text = type(error).__name__, str(error)
        if not setup["may_fail"]:
            traceback.print_exc()
    outcome.seconds = time.monotonic() - start
    if dist.is_initialized() and not outcome.error:
        dist.destroy_process_group()
    pipe.send(outcome)
    pipe.close()


def _outcome(pipe: Connection, end: float) -> Outcome | None:
    """What a rank says in the end, or None if it says nothing until the moment `end`."""
    while pipe.poll(max(0.0, end - time.monotonic())):
        try:
            said: Outcome | str = pipe.recv()
        except EOFError:
            return Outcome(error="Killed")
        if isinstance(said, Outcome):
            return said
    return None


def run_ranks(
    size: int,
    job: Job,
    *arguments: Any,
    backend: str = HOST,
    timeout: float = 20,
    limit: float = 180,
    may_fail: bool = False,
    on_start: Callable[[list[Any]], None] | None = None,
    on_begun: Callable[[list[Any]], None] | None = None,
    machines: str = "",
    **environ: str,
) -> list[Outcome]:
    """Run `job(rank, size, *arguments)` in `size` processes; returns the outcome of each.

    `timeout` is the group's, `limit` what all may take, both in seconds. `on_start` gets the processes, and so does
    `on_begun` when all have called `tell_begun`. A rank that was killed has no value and an exit code. Unless
    `may_fail`, an error in a rank is an error here. `machines` has a letter for each rank: ranks with different ones do
    not know that they share this machine.
    """
    with tempfile.TemporaryDirectory() as folder:
        setup = {
            "environ": {"HPUCLUSTER_JOB_ID": f"test{os.getpid()}", **environ},
            "backend": backend,
            "store": f"{folder}/store",
            "timeout": timeout,
            "may_fail": may_fail,
            "machines": machines,
        }
        processes, pipes = [], []
        for rank in range(size):
            ours, theirs = _context.Pipe(duplex=False)
            process = _context.Process(target=_main, args=(rank, size, job, arguments, setup, theirs), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
            pipes.append(ours)
        outcomes = []
        try:
            if on_start:
                on_start(processes)
            if on_begun:
                for rank, pipe in enumerate(pipes):
                    assert pipe.poll(limit), f"rank {rank} has not begun within {limit} s"
                    first = pipe.recv()
                    assert first == _BEGUN, f"rank {rank} ended before it began: {first}"
                on_begun(processes)
            end = time.monotonic() + limit
            for process, pipe in zip(processes, pipes, strict=True):
                outcome = _outcome(pipe, end) or Outcome(error="TestHang", text=f"no answer in {limit} s")
                process.join(max(0.1, end - time.monotonic()))
                outcome.exitcode = process.exitcode
                outcomes.append(outcome)
        finally:
            for process in processes:
                if process.is_alive():
                    process.kill()
                    process.join()
    if not may_fail:
        for rank, outcome in enumerate(outcomes):
            assert not outcome.error, f"rank {rank}: {outcome.error}: {outcome.text}"
    return outcomes


def leftovers() -> list[str]:
    """Shared memory with a name, of any job of these tests."""
    return [name for name in os.listdir(SHM) if name.startswith(f"hpucluster-test{os.getpid()}-")]
