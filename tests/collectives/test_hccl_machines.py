"""Groups whose ranks are on several machines. Here these are one machine that the ranks are told to be several."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

import collectives
from collectives.spanning import crossing, rails
from collectives.spanning.layout import Layout
from collectives.transport import wire_channel

from .hccl_ranks import run_ranks
from .test_hccl_movements import broadcasts, gathers, gathers_of_views
from .test_hccl_reductions import (
    awkward_tensors,
    coalesced,
    every_dtype_and_op,
    long_tensors,
    reduced,
    same_bits,
    sample,
    scattered,
    uneven_blocks,
)
from .test_hccl_time import three_operations

CONTIGUOUS = ("aaab", "aabbc")
INTERLEAVED = ("abab", "abcab")


def in_small_pieces() -> None:
    """Have some hundred kilobytes go through many rounds and fill the windows."""
    rails.RAIL_BYTES = 16 * 1024
    crossing.PIECE_BYTES = wire_channel.PIECE_BYTES = 4096


def reductions(rank: int, size: int) -> None:
    every_dtype_and_op(rank, size)
    long_tensors(rank, size)
    in_small_pieces()
    long_tensors(rank, size)
    scattered(rank, size)
    uneven_blocks(rank, size)
    awkward_tensors(rank, size)
    coalesced(rank, size)


@pytest.mark.parametrize("machines", CONTIGUOUS)
def test_reductions_have_the_bits_of_one_machine(machines: str) -> None:
    run_ranks(len(machines), reductions, machines=machines)


def test_the_bits_of_a_sum_of_very_different_numbers_are_those_of_one_machine() -> None:
    one, two = run_ranks(4, same_bits), run_ranks(4, same_bits, machines="aabb")
    assert len({tuple(outcome.value) for outcome in one + two}) == 1


def in_order_of_machines(rank: int, size: int, machines: str) -> None:
    in_small_pieces()
    order = [place for places in Layout(machines, rank).machines for place in places]
    for length in (5000, 100_003):
        for dtype in (torch.float32, torch.bfloat16):
            tensors = [sample(r, (length,), dtype) for r in range(size)]
            mine = tensors[rank].clone()
            dist.all_reduce(mine)
            assert torch.equal(mine, reduced([tensors[place] for place in order], "SUM"))
    output, blocks = torch.zeros(999), sample(rank, (size, 999), torch.float32)
    dist.reduce_scatter_tensor(output, blocks)
    want = reduced([sample(place, (size, 999), torch.float32)[rank] for place in order], "SUM")
    assert torch.equal(output, want)


@pytest.mark.parametrize("machines", INTERLEAVED)
def test_scattered_ranks_are_summed_machine_by_machine(machines: str) -> None:
    run_ranks(len(machines), in_order_of_machines, machines, machines=machines)


def movements(rank: int, size: int) -> None:
    gathers(rank, size)
    broadcasts(rank, size)
    if size == 3:
        gathers_of_views(rank, size)
    in_small_pieces()
    gathers(rank, size)
    all_to_all(rank, size)


def all_to_all(rank: int, size: int) -> None:
    def block(source: int, target: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(10 * source + target)
        return torch.randn((source * 7 + target * 1001) % 4000, generator=generator)

    sources = [block(rank, target) for target in range(size)]
    outputs = [torch.zeros_like(block(source, rank)) for source in range(size)]
    dist.all_to_all(outputs, sources)
    assert all(torch.equal(output, block(source, rank)) for source, output in enumerate(outputs))
    # Much more than the windows hold, from all to all at once.
    whole = torch.full((size * 300_000,), float(rank))
    output = torch.zeros_like(whole)
    dist.all_to_all_single(output, whole)
    assert torch.equal(output.reshape(size, -1)[:, 7], torch.arange(float(size)))


@pytest.mark.parametrize("machines", ("aab", "abcab"))
def test_movements(machines: str) -> None:
    run_ranks(len(machines), movements, machines=machines)


def messages(rank: int, size: int) -> list[str]:
    in_small_pieces()
    errors = []
    for length in (0, 1, 100_000):
        works = [dist.isend(torch.full((length,), float(rank)), to) for to in range(size) if to != rank]
        received = {source: torch.zeros(length) for source in range(size) if source != rank}
        works += [dist.irecv(tensor, source) for source, tensor in received.items()]
        for work in works:
            work.wait()
        assert all((tensor == source).all() for source, tensor in received.items())
    for attempt in ("length", "tag"):
        try:
            if rank == 0:
                dist.send(torch.ones(3), 1, tag=1)
            elif rank == 1:
                dist.recv(torch.ones(4 if attempt == "length" else 3), 0, tag=1 if attempt == "length" else 2)
        except RuntimeError as error:
            errors.append(str(error))
    dist.send(torch.ones(1), 1) if rank == 0 else dist.recv(torch.ones(1), 0) if rank == 1 else None
    return errors


@pytest.mark.parametrize("machines", ("ab", "abb"))
def test_messages_between_machines(machines: str) -> None:
    outcomes = run_ranks(len(machines), messages, machines=machines)
    length, tag = outcomes[0].value
    assert outcomes[1].value == [length, tag]
    assert "rank 0 called send #4 to rank 1 of float32[3], rank 1 called recv #4 from rank 0 of float32[4]" in length
    assert "with tags 1 and 2" in tag


def groups(rank: int, size: int) -> list[Any]:
    same, across = dist.new_group([0, 1]), dist.new_group([1, 2])
    total = torch.full((70_000,), float(rank))
    if rank < 2:
        dist.all_reduce(total, group=same)
    if rank > 0:
        dist.all_reduce(total, group=across)
    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    dist.destroy_process_group(across) if rank > 0 else None
    dist.barrier()
    return [total[0].item(), objects]


def test_sub_groups_on_one_and_on_several_machines() -> None:
    objects = [{"rank": 0}, {"rank": 1}, {"rank": 2}]
    assert [outcome.value for outcome in run_ranks(3, groups, machines="aab")] == [
        [1.0, objects],
        [3.0, objects],
        [3.0, objects],
    ]


def without_data(rank: int, size: int) -> list[float]:
    tensors = [torch.full((length,), float(rank)) for length in (3, 300_000)]
    with collectives.timing_only():
        for tensor in tensors:
            dist.all_reduce(tensor)
            dist.broadcast(tensor, 0)
        dist.all_to_all_single(torch.zeros(size * 2), torch.ones(size * 2))
    dist.barrier()
    dist.all_reduce(tensors[0])
    return [tensor[0].item() for tensor in tensors]


@pytest.mark.parametrize("machines", ("aab", "abc"))
def test_headers_alone_can_move(machines: str) -> None:
    outcomes = run_ranks(3, without_data, machines=machines)
    assert [outcome.value for outcome in outcomes] == [[3.0, 0.0], [3.0, 1.0], [3.0, 2.0]]


def test_modelled_time_does_not_depend_on_machines() -> None:
    one, two = (run_ranks(3, three_operations, backend="hccl", machines=machines) for machines in ("aaa", "aab"))
    assert [outcome.value for outcome in one] == [outcome.value for outcome in two]
