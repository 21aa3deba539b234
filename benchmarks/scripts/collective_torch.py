"""A rank of `benchmarks/collectives.py` in torch.distributed: `collective_torch.py hccl hpu` or `... gloo cpu`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from collective_orders import FLOAT, RANK, RANKS, elements, serve

from collectives.transport import native

FLOAT32 = 6
"""As `collectives/transport/csrc/kernels.h` numbers the types."""


def copies_and_sums(rank: int, ranks: int, count: int) -> Callable[[], Any]:
    """What one rank has to do in an all_reduce, with nobody to wait for."""
    data = torch.zeros(count)
    slot = native.SLOT_BYTES
    generations = max(2, native.LARGE_BYTES // slot // ranks)
    ring = torch.zeros(generations * slot, dtype=torch.uint8)
    passes = native.library().hccl_passes
    return lambda: passes(FLOAT32, rank, ring.data_ptr(), slot, generations, data.data_ptr(), count * FLOAT, ranks)


def preparation(rank: int, ranks: int, device: str) -> Callable[[str, int], Callable[[], Any]]:
    """For an operation and a size: what runs it once."""

    def prepare(op: str, nbytes: int) -> Callable[[], Any]:
        count, block = elements(nbytes, ranks)
        if op == "barrier":
            return dist.barrier
        if op == "all_reduce_bound":
            return copies_and_sums(rank, ranks, count)
        if op in ("all_reduce", "reduce", "broadcast", "send_recv"):
            tensor = torch.zeros(count, device=device)
            if op == "all_reduce":
                return lambda: dist.all_reduce(tensor)
            if op == "reduce":
                return lambda: dist.reduce(tensor, 0)
            if op == "broadcast":
                return lambda: dist.broadcast(tensor, 0)
            peer = rank ^ 1
            if rank < peer:
                return lambda: dist.send(tensor, peer)
            return lambda: dist.recv(tensor, peer)
        whole, part = torch.zeros(block * ranks, device=device), torch.zeros(block, device=device)
        if op == "all_gather":
            return lambda: dist.all_gather_into_tensor(whole, part)
        if op == "reduce_scatter":
            return lambda: dist.reduce_scatter_tensor(part, whole)
        if op == "all_to_all":
            other = torch.zeros_like(whole)
            return lambda: dist.all_to_all_single(other, whole)
        blocks = list(whole.chunk(ranks)) if rank == 0 else None
        if op == "gather":
            return lambda: dist.gather(part, blocks, 0)
        if op == "scatter":
            return lambda: dist.scatter(part, blocks, 0)
        raise ValueError(op)

    return prepare


def main() -> None:
    backend, device = sys.argv[1:]
    rank, ranks = int(os.environ[RANK]), int(os.environ[RANKS])
    torch.set_num_threads(1)
    dist.init_process_group(
        backend, init_method=f"file://{os.environ['COLLECTIVES_STORE']}", rank=rank, world_size=ranks
    )
    serve(rank, preparation(rank, ranks, device), dist.barrier)
    os._exit(0)  # gloo's own end aborts now and then


if __name__ == "__main__":
    main()
