"""What one rank is told, by environment variables: the real program's names, and a few of our own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from .catalogue import DATA_TYPES

STORE_VARIABLE = "HPUCLUSTER_DEMO_STORE"
"""File in which the ranks of one machine find each other, where HCCL_COMM_ID is unset."""


@dataclass(frozen=True)
class Settings:
    """A run, the same for all ranks.

    Sizes are in bytes, `scaleout_bw` in bytes per second (0: unset). `ranks_list` holds (sender, receiver);
    `custom_comm` the members in rising order, empty for all ranks.
    """

    test: str = "broadcast"
    measure: str = "bw"
    data_type: str = "float"
    size_min: int = 33554432
    size_max: int = 33554432
    size_inc: int = 1
    loop: int = 1000
    root: int = 0
    reduction_op: str = "sum"
    ranks_list: tuple[tuple[int, int], ...] = ()
    custom_comm: tuple[int, ...] = ()
    same_buffers: bool = False
    check_correctness: bool = True
    scaleout_bw: int = 0
    result_csv: str = ""
    data_csv: str = ""
    mpi: bool = False
    nranks: int = 0
    ranks_per_node: int = 8
    scaleup_group_size: int = 8

    @property
    def item_bytes(self) -> int:
        return DATA_TYPES[self.data_type]

    @property
    def is_range(self) -> bool:
        return self.size_max > self.size_min

    @property
    def members(self) -> tuple[int, ...]:
        """Ranks of the communicator."""
        return self.custom_comm or tuple(range(self.nranks))

    @property
    def comm_root(self) -> int:
        """The root as a rank of the job: the one asked for, or the first member where that is none."""
        return self.root if self.root in self.members else self.members[0]


def to_environment(settings: Settings) -> dict[str, str]:
    """The variables of `settings`, in the order in which the real wrapper shows them."""
    environ = {
        "HCCL_DEMO_TEST": settings.test,
        "HCCL_DEMO_MEASURE": settings.measure,
        "HCCL_DATA_TYPE": settings.data_type,
    }
    if settings.is_range:
        environ["HCCL_SIZE_RANGE_MIN"] = str(settings.size_min)
        environ["HCCL_SIZE_RANGE_MAX"] = str(settings.size_max)
        environ["HCCL_SIZE_RANGE_INC"] = str(settings.size_inc)
    else:
        environ["HCCL_DEMO_TEST_SIZE"] = str(settings.size_min)
    if settings.data_csv:
        environ["HCCL_DEMO_DATA_CSV"] = settings.data_csv
    if settings.same_buffers:
        environ["HCCL_DEMO_SAME_BUFFERS"] = "1"
    if not settings.check_correctness:
        environ["HCCL_DEMO_CHECK_CORRECTNESS"] = "0"
    environ["HCCL_DEMO_TEST_LOOP"] = str(settings.loop)
    if settings.scaleout_bw:
        environ["HCCL_EXPECTED_SCALEOUT_BW"] = str(settings.scaleout_bw)
    environ["HCCL_REDUCTION_OP"] = settings.reduction_op
    if settings.ranks_list:
        environ["HCCL_RANKS_LIST"] = ",".join(f"{sender},{receiver}" for sender, receiver in settings.ranks_list)
    environ["HCCL_DEMO_TEST_ROOT"] = str(settings.root)
    if settings.result_csv:
        environ["HCCL_DEMO_RESULT_CSV"] = settings.result_csv
    environ["HCCL_DEMO_MPI_REQUESTED"] = environ["MPI_ENABLED"] = str(int(settings.mpi))
    if settings.custom_comm:
        environ["HCCL_DEMO_CUSTOM_COMM"] = ",".join(map(str, settings.custom_comm))
    return environ


def rank_environment(settings: Settings, rank: int) -> dict[str, str]:
    """The same for one rank of a run without MPI."""
    return to_environment(settings) | {
        "ID": str(rank),
        "HCCL_RANK": str(rank),
        "HCCL_NRANKS": str(settings.nranks),
        "HCCL_RANKS_PER_NODE": str(settings.ranks_per_node),
        "HCCL_SCALEUP_GROUP_SIZE": str(settings.scaleup_group_size),
    }


_BOX_VARIABLE = "HPUCLUSTER_CARDS_PER_BOX"


def describe_boxes(settings: Settings) -> None:
    """Tell the fabric's model, by this process's environment, how many ranks share a box where there are several."""
    if settings.nranks > settings.ranks_per_node:
        os.environ[_BOX_VARIABLE] = str(settings.ranks_per_node)


OPTIONAL = (
    "HCCL_DEMO_TEST_SIZE",
    "HCCL_SIZE_RANGE_MIN",
    "HCCL_SIZE_RANGE_MAX",
    "HCCL_SIZE_RANGE_INC",
    "HCCL_DEMO_DATA_CSV",
    "HCCL_DEMO_SAME_BUFFERS",
    "HCCL_DEMO_CHECK_CORRECTNESS",
    "HCCL_EXPECTED_SCALEOUT_BW",
    "HCCL_RANKS_LIST",
    "HCCL_DEMO_RESULT_CSV",
    "HCCL_DEMO_CUSTOM_COMM",
)
"""Variables that a run may leave unset: the caller's own must not reach a rank then, for nobody has checked them."""


def from_environment(environ: Mapping[str, str]) -> Settings:
    """What the variables say; unset ones have the real program's defaults. They were checked when they were made."""
    mpi = environ.get("HCCL_DEMO_MPI_REQUESTED", "0") == "1"
    size = int(environ.get("HCCL_DEMO_TEST_SIZE", Settings.size_min))
    listed = _numbers(environ.get("HCCL_RANKS_LIST", ""))
    ranks_per_node = int(environ.get("OMPI_COMM_WORLD_LOCAL_SIZE" if mpi else "HCCL_RANKS_PER_NODE", 8))
    return Settings(
        test=environ.get("HCCL_DEMO_TEST", Settings.test),
        measure=environ.get("HCCL_DEMO_MEASURE", Settings.measure),
        data_type=environ.get("HCCL_DATA_TYPE", Settings.data_type),
        size_min=int(environ.get("HCCL_SIZE_RANGE_MIN", size)),
        size_max=int(environ.get("HCCL_SIZE_RANGE_MAX", size)),
        size_inc=int(environ.get("HCCL_SIZE_RANGE_INC", Settings.size_inc)),
        loop=int(environ.get("HCCL_DEMO_TEST_LOOP", Settings.loop)),
        root=int(environ.get("HCCL_DEMO_TEST_ROOT", Settings.root)),
        reduction_op=environ.get("HCCL_REDUCTION_OP", Settings.reduction_op),
        ranks_list=tuple(zip(listed[::2], listed[1::2], strict=True)),
        custom_comm=tuple(sorted(set(_numbers(environ.get("HCCL_DEMO_CUSTOM_COMM", ""))))),
        same_buffers=environ.get("HCCL_DEMO_SAME_BUFFERS", "0") == "1",
        check_correctness=environ.get("HCCL_DEMO_CHECK_CORRECTNESS", "1") != "0",
        scaleout_bw=int(environ.get("HCCL_EXPECTED_SCALEOUT_BW", Settings.scaleout_bw)),
        result_csv=environ.get("HCCL_DEMO_RESULT_CSV", ""),
        data_csv=environ.get("HCCL_DEMO_DATA_CSV", ""),
        mpi=mpi,
        nranks=int(environ.get("OMPI_COMM_WORLD_SIZE" if mpi else "HCCL_NRANKS", Settings.nranks)),
        ranks_per_node=ranks_per_node,
        scaleup_group_size=int(environ.get("HCCL_SCALEUP_GROUP_SIZE", ranks_per_node)),
    )


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part.strip()]
