"""Collectives without their data: the same times and the same errors, and tensors as they were."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
import torch.distributed as dist

import collectives
from collectives.errors import MismatchError
from device.network import Transfer

from .hccl_ranks import run_ranks
from .test_hccl_time import recorded


def every_operation(rank: int, size: int, is_timed_only: bool) -> tuple[list[Transfer], list[float]]:
    transfers = recorded(arrival=float(rank))
    whole, part = torch.full((size * 40_000,), 1.0 + rank, device="hpu"), torch.zeros(40_000, device="hpu")
    other = torch.zeros_like(whole)
    blocks = list(other.chunk(size))
    with collectives.timing_only() if is_timed_only else contextlib.nullcontext():
        dist.all_reduce(whole)
        dist.broadcast(whole, 1)
        dist.reduce(whole, 0)
        dist.all_gather_into_tensor(other, part)
        dist.reduce_scatter_tensor(part, whole)
        dist.all_to_all_single(other, whole)
        dist.gather(part, blocks if rank == 0 else None, 0)
        dist.scatter(part, blocks if rank == 0 else None, 0)
        dist.all_reduce(whole, async_op=True).wait()
        dist.broadcast(whole.view(-1, 4)[:, 1], 0)
        dist.barrier()
        if rank < 2:
            dist.send(part, 1) if rank == 0 else dist.recv(part, 0)
    return transfers, [float(tensor.cpu().double().abs().sum()) for tensor in (whole, part, other)]


def test_times_are_those_of_real_collectives_and_tensors_stay_as_they_are() -> None:
    size = 3
    real = [outcome.value for outcome in run_ranks(size, every_operation, False, backend="hccl")]
    timed = [outcome.value for outcome in run_ranks(size, every_operation, True, backend="hccl")]
    for rank in range(size):
        assert timed[rank][0] == real[rank][0]
        assert timed[rank][1] == [size * 40_000 * (1.0 + rank), 0.0, 0.0]
        assert real[rank][1] != timed[rank][1]


def disagreement(rank: int, size: int) -> bool:
    with collectives.timing_only():
        with pytest.raises(MismatchError, match="ranks disagree"):
            dist.all_reduce(torch.ones(4 + rank))
        with pytest.raises(MismatchError, match="sends 2 elements to rank 0, which expects 1"):
            splits = [2, 1] if rank == 0 else [1, 1]
            dist.all_to_all_single(torch.ones(2), torch.ones(sum(splits)), [1, 1], splits)
    total = torch.ones(4)
    dist.all_reduce(total)
    return bool((total == size).all())


def test_disagreements_are_noticed_and_data_moves_again_afterwards() -> None:
    assert all(outcome.value for outcome in run_ranks(2, disagreement))


def without_numerics(rank: int, size: int) -> list[Transfer]:
    return every_operation(rank, size, False)[0]


def test_without_numerics_no_data_moves_either() -> None:
    real = [outcome.value for outcome in run_ranks(3, without_numerics, backend="hccl")]
    off = [outcome.value for outcome in run_ranks(3, without_numerics, backend="hccl", HPUCLUSTER_NUMERICS="off")]
    assert real == off


def without_values(rank: int, size: int) -> list[Any]:
    told: list[Any] = [None] * size
    dist.all_gather_object(told, ("x" * 50_000, rank))
    counted = torch.tensor([rank + 1], device="hpu")
    dist.all_reduce(counted)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).to("hpu"))
    model(torch.ones(2, 4).to("hpu")).sum().backward()
    on_host = torch.full((100_000,), float(rank))
    dist.all_reduce(on_host)
    return [[number for _, number in told], on_host[7].item()]


def test_without_numerics_ranks_tell_each_other_what_they_need() -> None:
    """Python's objects, small tensors, host memory: so DistributedDataParallel begins."""
    off = [outcome.value for outcome in run_ranks(2, without_values, backend="hccl", HPUCLUSTER_NUMERICS="off")]
    assert off == [[[0, 1], 1.0]] * 2
