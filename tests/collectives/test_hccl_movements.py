"""Collectives that only move data."""

from __future__ import annotations

import time

import pytest
import torch
import torch.distributed as dist

from .hccl_ranks import run_ranks

SIZES = (1, 2, 3, 5)
DTYPES = (torch.float32, torch.bfloat16, torch.bool, torch.int64, torch.uint8, torch.float8_e4m3fn)


def block(source: int, target: int, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """What `source` sends to `target`."""
    generator = torch.Generator().manual_seed(100 * source + target)
    return torch.randint(0, 2 if dtype == torch.bool else 9, shape, generator=generator).to(dtype)


def equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.equal(left.float(), right.float()) and left.dtype == right.dtype


def gathers(rank: int, size: int) -> None:
    for shape in ((3,), (0,), (), (7, 11), (150, 333)):
        for dtype in DTYPES:
            parts = [block(r, 0, shape, dtype) for r in range(size)]
            outputs = [torch.zeros(shape, dtype=dtype) for _ in range(size)]
            dist.all_gather(outputs, parts[rank])
            assert all(equal(a, b) for a, b in zip(outputs, parts, strict=True)), (shape, dtype)
            whole = torch.zeros((size, *shape), dtype=dtype)
            dist.all_gather_into_tensor(whole, parts[rank])
            assert equal(whole, torch.stack(parts)), (shape, dtype)
            root = size - 1
            outputs = [torch.zeros(shape, dtype=dtype) for _ in range(size)]
            dist.gather(parts[rank], outputs if rank == root else None, dst=root)
            assert rank != root or all(equal(a, b) for a, b in zip(outputs, parts, strict=True)), (shape, dtype)
            mine = torch.zeros(shape, dtype=dtype)
            dist.scatter(mine, parts if rank == root else None, src=root)
            assert equal(mine, parts[rank]), (shape, dtype)


@pytest.mark.parametrize("size", SIZES)
def test_gather_and_scatter(size: int) -> None:
    run_ranks(size, gathers, HPUCLUSTER_SHM_MB="0.3")


def gathers_of_views(rank: int, size: int) -> None:
    whole = torch.zeros(size, 40)
    whole[rank] = rank
    dist.all_gather_into_tensor(whole, whole[rank])
    assert torch.equal(whole, torch.arange(float(size))[:, None].expand(size, 40))
    columns = torch.zeros(5, size)
    dist.all_gather([columns[:, r] for r in range(size)], torch.full((10,), float(rank))[::2])
    assert torch.equal(columns, torch.arange(float(size)).expand(5, size))
    outputs = [torch.zeros(size * 2), torch.zeros(size, 3)]
    dist.group.WORLD.allgather_into_tensor_coalesced(outputs, [torch.full((2,), rank + 1.0), torch.ones(1, 3)]).wait()
    assert torch.equal(outputs[0], torch.arange(1.0, size + 1).repeat_interleave(2)) and outputs[1].sum() == 3 * size
    lists = [[torch.zeros(2), torch.zeros(3)] for _ in range(size)]
    dist.all_gather_coalesced(lists, [torch.full((2,), float(rank)), torch.full((3,), 10.0 * rank)])
    assert all(pair[0][0] == r and pair[1][2] == 10 * r for r, pair in enumerate(lists))


def test_gathers_of_views_in_place_and_coalesced() -> None:
    run_ranks(3, gathers_of_views)


def broadcasts(rank: int, size: int) -> None:
    for root in range(size):
        for shape in ((1,), (0,), (1000, 201)):
            for dtype in DTYPES:
                want = block(root, 0, shape, dtype)
                mine = want.clone() if rank == root else torch.zeros(shape, dtype=dtype)
                dist.broadcast(mine, root)
                assert equal(mine, want), (root, shape, dtype)
    values = [{"rate": 0.1, "rank": rank}, None, "text"]
    dist.broadcast_object_list(values, size - 1)
    assert values[0]["rank"] == size - 1
    gathered: list[object] = [None] * size
    dist.all_gather_object(gathered, ("rank", rank))
    assert gathered == [("rank", r) for r in range(size)]
    scattered: list[object] = [None]
    dist.scatter_object_list(scattered, [f"for {r}" for r in range(size)], 0)
    assert scattered == [f"for {rank}"]


@pytest.mark.parametrize("size", SIZES)
def test_broadcast_and_objects(size: int) -> None:
    run_ranks(size, broadcasts, HPUCLUSTER_SHM_MB="0.3")


def exchanges(rank: int, size: int) -> None:
    for columns in (1, 513):
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            source = torch.cat([block(rank, to, (4, columns), dtype) for to in range(size)])
            output = torch.zeros_like(source)
            dist.all_to_all_single(output, source)
            assert equal(output, torch.cat([block(r, rank, (4, columns), dtype) for r in range(size)]))

            def rows(source_rank: int, target: int) -> int:
                return (source_rank * 3 + target * 5) % 4  # also 0

            source = torch.cat([block(rank, to, (rows(rank, to), columns), dtype) for to in range(size)])
            sizes_in = [rows(rank, to) for to in range(size)]
            sizes_out = [rows(r, rank) for r in range(size)]
            output = torch.zeros(sum(sizes_out), columns, dtype=dtype)
            dist.all_to_all_single(output, source, sizes_out, sizes_in)
            assert equal(output, torch.cat([block(r, rank, (rows(r, rank), columns), dtype) for r in range(size)]))
            inputs = [block(rank, to, (rows(rank, to), columns), dtype) for to in range(size)]
            outputs = [torch.zeros(rows(r, rank), columns, dtype=dtype) for r in range(size)]
            dist.all_to_all(outputs, inputs)
            assert equal(torch.cat(outputs), output)


@pytest.mark.parametrize("size", SIZES)
def test_all_to_all_with_even_and_uneven_splits(size: int) -> None:
    run_ranks(size, exchanges, HPUCLUSTER_SHM_MB="0.1")


def asynchronous(rank: int, size: int) -> None:
    tensors = [torch.full((length,), float(rank)) for length in (3, 50_000, 1, 7000)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    futures = [work.get_future() for work in works]
    results = [future.wait() for future in futures]
    want = size * (size - 1) / 2
    assert all(result[0] is tensor for result, tensor in zip(results, tensors, strict=True))
    assert all((tensor == want).all() for tensor in tensors)
    assert all(work.is_completed() and work.is_success() and work.exception() is None for work in works)
    assert works[1].result()[0] is tensors[1]
    works[0].get_future().then(lambda future: future.value()).wait()
    # A synchronous operation right behind an asynchronous one keeps its place.
    first, second = torch.ones(30_000), torch.ones(2)
    pending = dist.all_reduce(first, async_op=True)
    dist.all_reduce(second)
    assert second[0] == size
    pending.wait()
    assert first[-1] == size


def test_asynchronous_works_finish_in_order_and_fill_their_futures() -> None:
    run_ranks(3, asynchronous)


def waits_for_the_last(rank: int, size: int) -> tuple[float, float]:
    dist.barrier()
    if rank == 1:
        time.sleep(0.3)
    arrived = time.monotonic()
    dist.barrier()
    return arrived, time.monotonic()


def test_barrier_waits_for_the_last_rank() -> None:
    moments = [outcome.value for outcome in run_ranks(4, waits_for_the_last)]
    last = max(arrived for arrived, _ in moments)
    assert all(left >= last for _, left in moments)
