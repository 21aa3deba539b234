"""Processes that form a process group once and then run one job after another, as a training cluster's ranks would."""

from __future__ import annotations

import gc
import itertools
import os
import tempfile
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

import collectives

from .hccl_ranks import HOST, Job, _context, join

_numbers = itertools.count(1)


def _serve(rank: int, size: int, setup: dict[str, Any], pipe: Connection) -> None:
    os.environ.update(setup["environ"])
    torch.set_num_threads(1)
    collectives.register(HOST, ["cpu"])
    join(rank, size, setup)
    while (order := pipe.recv()) is not None:
        job, arguments = order
        torch.manual_seed(1)
        try:
            pipe.send((job(rank, size, *arguments), ""))
        except BaseException as error:
            pipe.send((None, f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))
            return
        gc.collect()
    dist.destroy_process_group()


class RankPool:
    """`size` ranks of one backend and environment; started by the first job, and anew after one that failed."""

    def __init__(self, size: int, backend: str = "hccl", timeout: float = 20, **environ: str) -> None:
        self.size = size
        self._setup = {
            "environ": {"HPUCLUSTER_JOB_ID": f"pool{os.getpid()}-{next(_numbers)}", **environ},
            "backend": backend,
        }
        self._setup["timeout"] = timeout
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        setup = {**self._setup, "store": f"{self._folder.name}/store"}
        for rank in range(self.size):
            ours, theirs = _context.Pipe()
            process = _context.Process(target=_serve, args=(rank, self.size, setup, theirs), daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(ours)

    def run(self, job: Job, *arguments: Any, limit: float = 180) -> list[Any]:
        """`job(rank, size, *arguments)` of every rank, in order; an error in a rank is an error here.

        `limit` is what all may take, in seconds.
        """
        if not self._processes:
            self._start()
        for pipe in self._pipes:
            pipe.send((job, arguments))
        end = time.monotonic() + limit
        values: list[Any] = [None] * self.size
        troubles: dict[int, str] = {}
        for rank, pipe in enumerate(self._pipes):
            try:
                if not pipe.poll(max(0.0, end - time.monotonic())):
                    troubles[rank] = "no answer"
                    continue
                values[rank], trouble = pipe.recv()
            except EOFError:
                trouble = "died"
            if trouble:
                troubles[rank] = trouble
                end = min(end, time.monotonic() + 5)  # the others wait for this one in vain
        if troubles:
            self.close(kill=True)
            raise AssertionError("\n".join(f"rank {rank}: {text}" for rank, text in sorted(troubles.items())))
        return values

    def close(self, kill: bool = False) -> None:
        """End the ranks."""
        for pipe in self._pipes:
            if not kill:
                pipe.send(None)
        for process in self._processes:
            if not kill:
                process.join(20)
            if process.is_alive():
                process.kill()
                process.join()
        for pipe in self._pipes:
            pipe.close()
        self._processes, self._pipes = [], []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        if kill:
            collectives.remove_leftovers(self._setup["environ"]["HPUCLUSTER_JOB_ID"])


def all_equal(values: list[Any]) -> bool:
    """Whether every rank gave the same."""
    return all(value == values[0] for value in values)
