"""Where each rank goes: its card, its share of the cores, its environment, the job's rendezvous port."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from device.modules import BOX_VARIABLE

from .job import Job

LOOPBACK = "127.0.0.1"


def available_cores() -> int:
    """Number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def threads_per_rank(environ: Mapping[str, str], ranks: int) -> int | None:
    """CPU threads for one rank: None where the user set OMP_NUM_THREADS, else cores // ranks, at least
    1.
    """
    if environ.get("OMP_NUM_THREADS"):
        return None
    return max(1, available_cores() // ranks)


def free_port() -> int:
    """A TCP port on the loopback interface that is free now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def common_environment(job: Job) -> dict[str, str]:
    """The environment that all ranks share: the caller's, without a rank set by an outer launcher."""
    own = {"RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "HLS_MODULE_ID", "HABANA_VISIBLE_MODULES"}
    environ = {name: value for name, value in job.environ.items() if name not in own}
    if job.threads is not None:
        environ["OMP_NUM_THREADS"] = str(job.threads)
    environ.update(
        WORLD_SIZE=str(job.world_size),
        MASTER_ADDR=job.master_address,
        MASTER_PORT=str(job.master_port),
        HPUCLUSTER_CARD=job.card,
        HPUCLUSTER_NUMERICS=job.numerics,
        HPUCLUSTER_HOST_TIME=job.host_time,
        HPUCLUSTER_JOB_ID=job.identifier,
    )
    return environ


def rank_environment(job: Job, rank: int) -> dict[str, str]:
    """The whole environment of one rank. What is "local" there are the ranks of its box, as each box of a real cluster
    is a machine of its own.
    """
    local = job.neighbours(rank)
    place = {
        "RANK": str(rank),
        "LOCAL_RANK": str(local.index(rank)),
        "LOCAL_WORLD_SIZE": str(len(local)),
        "HLS_MODULE_ID": str(job.module(rank)),
        "HABANA_VISIBLE_MODULES": ",".join(str(job.module(other)) for other in local),
        BOX_VARIABLE: str(job.box(rank)),
    }
    return {**common_environment(job), **place}
