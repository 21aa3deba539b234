"""A rank of `benchmarks/collectives.py` in OpenMPI, by mpi4py; run with the Python that has mpi4py and numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from collective_orders import elements, serve
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()


def prepare(op: str, nbytes: int) -> Callable[[], Any]:
    """For an operation and a size: what runs it once."""
    count, block = elements(nbytes, ranks)
    if op == "barrier":
        return world.Barrier
    if op in ("all_reduce", "reduce", "broadcast", "send_recv"):
        data = np.zeros(count, np.float32)
        if op == "all_reduce":
            return lambda: world.Allreduce(MPI.IN_PLACE, data)
        if op == "reduce":
            return lambda: world.Reduce(MPI.IN_PLACE if rank == 0 else data, data, root=0)
        if op == "broadcast":
            return lambda: world.Bcast(data, 0)
        peer = rank ^ 1
        if rank < peer:
            return lambda: world.Send(data, peer)
        return lambda: world.Recv(data, peer)
    whole, part = np.zeros(block * ranks, np.float32), np.zeros(block, np.float32)
    if op == "all_gather":
        return lambda: world.Allgather(part, whole)
    if op == "reduce_scatter":
        return lambda: world.Reduce_scatter_block(whole, part)
    if op == "all_to_all":
        other = np.zeros_like(whole)
        return lambda: world.Alltoall(whole, other)
    if op == "gather":
        return lambda: world.Gather(part, whole if rank == 0 else None, 0)
    if op == "scatter":
        return lambda: world.Scatter(whole if rank == 0 else None, part, 0)
    raise ValueError(op)


if __name__ == "__main__":
    serve(rank, prepare, world.Barrier)
