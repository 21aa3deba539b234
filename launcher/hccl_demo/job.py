"""One rank's end of a run: which card, which group, who else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from device.errors import ConfigurationError
from device.modules import BOX_VARIABLE, visible_modules
from habana_frameworks.torch import hpu  # also registers the hpu device and the hccl process group

from .settings import STORE_VARIABLE, Settings, describe_boxes

DTYPES = {"float": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Job:
    """`rank` counts in the whole job, `place` in the communicator; `group` is that for torch.distributed (None: all).

    `node` is the same text for all ranks of one machine that print together.
    """

    settings: Settings
    rank: int
    place: int
    group: Any
    node: str

    @property
    def ranks(self) -> int:
        return len(self.settings.members)

    @property
    def is_root(self) -> bool:
        return self.rank == self.settings.comm_root

    @property
    def dtype(self) -> torch.dtype:
        return DTYPES[self.settings.data_type]

    def synchronize(self) -> None:
        """The card and all that it has to do."""
        hpu.synchronize()

    def gather(self, text: Any) -> list[Any]:
        """What every member brings, by place; on all of them."""
        gathered: list[Any] = [None] * self.ranks
        dist.all_gather_object(gathered, text, group=self.group)
        return gathered


def own_rank(settings: Settings, environ: Mapping[str, str]) -> int:
    """This process's rank: by OpenMPI where that was asked for."""
    return int(environ["OMPI_COMM_WORLD_RANK" if settings.mpi else "HCCL_RANK"])


def take_place(settings: Settings, rank: int) -> None:
    """Say in the environment which card this process takes, as launchers do. Before the card is used."""
    local = int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]) if settings.mpi else rank % settings.ranks_per_node
    modules = visible_modules()
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(local),
        WORLD_SIZE=str(settings.nranks),
        LOCAL_WORLD_SIZE=str(min(settings.ranks_per_node, settings.nranks)),
        HLS_MODULE_ID=str(modules[local % len(modules)]),
    )
    if not settings.mpi:  # nodes may be tried out on one machine, and then hold different cards
        os.environ.setdefault(BOX_VARIABLE, str(rank // settings.ranks_per_node))
    describe_boxes(settings)


def join(settings: Settings, rank: int) -> Job | None:
    """Meet the other ranks; None where this one is not in the communicator.

    Raises:
        CollectiveError: they do not come.
    """
    dist.init_process_group("hccl", init_method=_rendezvous(settings), rank=rank, world_size=settings.nranks)
    group = None
    if settings.custom_comm:
        group = dist.new_group(list(settings.members))
        # Whoever goes now may take with it the store in which the members find each other. (A barrier would warn.)
        dist.all_reduce(torch.zeros(1))
    if rank not in settings.members:
        return None
    node = os.uname().nodename if settings.mpi else str(rank // settings.ranks_per_node)
    return Job(settings, rank, settings.members.index(rank), group, node)


def _rendezvous(settings: Settings) -> str:
    if address := os.environ.get("HCCL_COMM_ID"):
        return f"tcp://{address}"
    if store := os.environ.get(STORE_VARIABLE):
        return f"file://{store}"
    if not settings.mpi or settings.nranks > settings.ranks_per_node:
        raise ConfigurationError(
            "HCCL_COMM_ID is not set, so the ranks cannot meet; set it for all of them to the address of rank 0's"
            " machine and a free port there: HCCL_COMM_ID=10.0.0.1:5555"
        )
    # OpenMPI keeps a folder for each job on each of its machines.
    return f"file://{os.environ['PMIX_SERVER_TMPDIR']}/hccl_demo-{os.environ['PMIX_NAMESPACE']}"
