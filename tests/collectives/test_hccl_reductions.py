"""all_reduce, reduce and reduce_scatter against a plain reference, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectives.transport.native import SLOT_BYTES, SMALL_BYTES

from .hccl_ranks import run_ranks

SIZES = (1, 2, 3, 5)
DTYPES = (
    torch.uint8,
    torch.int8,
    torch.bool,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)
OPS = {"SUM": torch.add, "MIN": torch.minimum, "MAX": torch.maximum, "PRODUCT": torch.mul}


def sample(rank: int, shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """The tensor that a rank contributes; every rank can compute everybody's."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 5, shape, generator=generator).to(dtype)


def reduced(tensors: list[torch.Tensor], op: str) -> torch.Tensor:
    """Rank 0 first, then 1, ...; 16-bit floats in float32; bool as the bridge maps it."""
    dtype = tensors[0].dtype
    if dtype == torch.bool:
        op = {"SUM": "MAX", "PRODUCT": "MIN"}.get(op, op)
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    total = tensors[0].to(wide)
    for tensor in tensors[1:]:
        total = OPS[op](total, tensor.to(wide)) if dtype != torch.bool else _logic(op, total, tensor)
    return total.to(dtype)


def _logic(op: str, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return left | right if op == "MAX" else left & right


def every_dtype_and_op(rank: int, size: int) -> None:
    for length in (0, 1, 7, 1000, 17_003):  # the last one does not fit beside the headers
        for dtype in DTYPES:
            for op in OPS:
                tensors = [sample(r, (length,), dtype) for r in range(size)]
                mine = tensors[rank].clone()
                dist.all_reduce(mine, getattr(dist.ReduceOp, op))
                assert torch.equal(mine, reduced(tensors, op)), (length, dtype, op)


@pytest.mark.parametrize("size", SIZES)
def test_all_reduce_of_every_dtype_and_operator(size: int) -> None:
    run_ranks(size, every_dtype_and_op)


def long_tensors(rank: int, size: int) -> None:
    for length in (5000, 100_003, 300_000):
        for dtype in (torch.float32, torch.bfloat16, torch.int8):
            tensors = [sample(r, (length,), dtype) for r in range(size)]
            total = reduced(tensors, "SUM")
            mine = tensors[rank].clone()
            dist.all_reduce(mine)
            assert torch.equal(mine, total), (length, dtype)
            for root in {0, size - 1}:
                mine = tensors[rank].clone()
                dist.reduce(mine, root)
                assert torch.equal(mine, total if rank == root else tensors[rank]), (length, dtype, root)


@pytest.mark.parametrize("size", SIZES)
def test_tensors_longer_than_the_buffers_go_through_in_chunks(size: int) -> None:
    run_ranks(size, long_tensors, HPUCLUSTER_SHM_MB="0.2")


def test_the_least_of_buffers_is_enough() -> None:
    run_ranks(8, long_tensors, HPUCLUSTER_SHM_MB="0.000001")


def chunk_edges(rank: int, size: int) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        edges = {SMALL_BYTES // dtype.itemsize, *(SLOT_BYTES // 4 * chunks for chunks in (1, 2, 5))}
        for length in sorted(edge + offset for edge in edges for offset in (-1, 0, 1)):
            generator = torch.Generator().manual_seed(length)
            base = torch.randint(-5, 6, (length,), generator=generator)  # sums are exact in bfloat16
            mine = (base * (rank + 1)).to(dtype)
            dist.all_reduce(mine)
            assert torch.equal(mine, (base * (size * (size + 1) // 2)).to(dtype)), (length, dtype)
            part = torch.zeros(length, dtype=dtype)
            dist.reduce_scatter_tensor(part, (base.repeat(size) * (rank + 1)).to(dtype))
            assert torch.equal(part, mine), (length, dtype)
            gathered = torch.zeros(length * size, dtype=dtype)
            dist.all_gather_into_tensor(gathered, (base + rank).to(dtype))
            assert torch.equal(gathered, torch.cat([base + r for r in range(size)]).to(dtype)), (length, dtype)


@pytest.mark.parametrize("size", (2, 8))
def test_lengths_around_the_edges_of_chunks(size: int) -> None:
    run_ranks(size, chunk_edges)


def scattered(rank: int, size: int) -> None:
    for length in (1, 7, 3001, 70_001):
        for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.int64):
            inputs = [sample(r, (size * length,), dtype) for r in range(size)]
            want = reduced([tensor.chunk(size)[rank] for tensor in inputs], "SUM")
            output = torch.zeros(length, dtype=dtype)
            dist.reduce_scatter_tensor(output, inputs[rank])
            assert torch.equal(output, want), (length, dtype)
            output.zero_()
            dist.reduce_scatter(output, list(inputs[rank].clone().chunk(size)))
            assert torch.equal(output, want), (length, dtype)
            in_place = inputs[rank].clone()
            part = in_place.chunk(size)[rank]
            dist.reduce_scatter_tensor(part, in_place)
            assert torch.equal(part, want), (length, dtype)


@pytest.mark.parametrize("size", SIZES)
def test_reduce_scatter(size: int) -> None:
    run_ranks(size, scattered, HPUCLUSTER_SHM_MB="0.5")


def uneven_blocks(rank: int, size: int) -> None:
    blocks = [[sample(r, (11 * (to + 1),), torch.float32, seed=to) for to in range(size)] for r in range(size)]
    output = torch.zeros(11 * (rank + 1))
    dist.reduce_scatter(output, blocks[rank])
    assert torch.equal(output, reduced([blocks[r][rank] for r in range(size)], "SUM"))


def test_reduce_scatter_of_blocks_of_different_lengths() -> None:
    run_ranks(3, uneven_blocks)


def awkward_tensors(rank: int, size: int) -> None:
    base = [sample(r, (6, 8, 4), torch.float32) for r in range(size)]
    total = reduced(base, "SUM")
    for view in (
        lambda t: t.transpose(0, 2),
        lambda t: t[::2, 1:5],
        lambda t: t[:, :, 1],
        lambda t: t[3:3],
        lambda t: t[2, 3, 1],
    ):
        mine = base[rank].clone()
        dist.all_reduce(view(mine))
        want = base[rank].clone()
        view(want).copy_(view(total))
        assert torch.equal(mine, want)
    image = base[rank].clone().reshape(1, 6, 8, 4).contiguous(memory_format=torch.channels_last)
    dist.all_reduce(image)
    assert torch.equal(image.reshape(6, 8, 4), total)
    leaf = base[rank].clone().requires_grad_()
    dist.all_reduce(leaf)
    assert torch.equal(leaf.detach(), total)
    number = torch.complex(base[rank], base[rank])
    dist.all_reduce(number)
    assert torch.equal(number, torch.complex(total, total))


def test_views_that_are_not_contiguous_empty_or_scalar() -> None:
    run_ranks(3, awkward_tensors)


def coalesced(rank: int, size: int) -> None:
    shapes = [(3,), (200, 31), (), (0,), (5, 2)]
    tensors = [sample(rank, shape, torch.float32, seed) for seed, shape in enumerate(shapes)]
    want = [
        reduced([sample(r, shape, torch.float32, seed) for r in range(size)], "SUM")
        for seed, shape in enumerate(shapes)
    ]
    dist.all_reduce_coalesced(tensors)
    assert all(torch.equal(a, b) for a, b in zip(tensors, want, strict=True))
    outputs = [torch.zeros(4), torch.zeros(2, 3)]
    inputs = [torch.ones(4 * size), torch.full((2 * size, 3), float(rank))]
    dist.group.WORLD.reduce_scatter_tensor_coalesced(outputs, inputs).wait()
    assert torch.equal(outputs[0], torch.full((4,), float(size)))
    assert torch.equal(outputs[1], torch.full((2, 3), size * (size - 1) / 2))


@pytest.mark.parametrize("size", (1, 3))
def test_coalesced_reductions(size: int) -> None:
    run_ranks(size, coalesced)


cases = st.lists(
    st.tuples(
        st.lists(st.integers(0, 40), max_size=4).map(tuple), st.sampled_from(DTYPES), st.sampled_from(sorted(OPS))
    ),
    min_size=15,
    max_size=15,
)


def drawn(rank: int, size: int, drawn_cases: list[tuple[tuple[int, ...], torch.dtype, str]]) -> None:
    for seed, (shape, dtype, op) in enumerate(drawn_cases):
        tensors = [sample(r, shape, dtype, seed) for r in range(size)]
        want = reduced(tensors, op)
        mine = tensors[rank].clone()
        work = dist.all_reduce(mine, getattr(dist.ReduceOp, op), async_op=seed % 2 == 0)
        if work is not None:
            work.wait()
        assert torch.equal(mine, want), (shape, dtype, op)


@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(size=st.sampled_from((2, 4)), drawn_cases=cases, megabytes=st.sampled_from(("0.05", "1")))
def test_any_shape_dtype_and_operator(size: int, drawn_cases: list[Any], megabytes: str) -> None:
    run_ranks(size, drawn, drawn_cases, HPUCLUSTER_SHM_MB=megabytes)


def same_bits(rank: int, size: int) -> list[bytes]:
    results = []
    for length in (50, 100_000):
        mine = sample(rank, (length,), torch.float32) * 10.0 ** (rank * 3)
        dist.all_reduce(mine)
        results.append(mine.numpy().tobytes())
    return results


def test_every_rank_and_every_run_gets_the_same_bits() -> None:
    first, second = run_ranks(4, same_bits), run_ranks(4, same_bits)
    assert len({tuple(outcome.value) for outcome in first + second}) == 1
