"""Modelled time of collectives: every rank computes the same end, and accounts it where its program waits."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from collectives.errors import CollectiveError
from collectives.ledger import Ledger
from collectives.roce.network import Group, Network
from collectives.roce.place import Place
from collectives.timing import Line
from device import interop
from device.network import Transfer
from device.spec import load_card

from .hccl_ranks import run_ranks


def recorded(arrival: float) -> list[Transfer]:
    """Have the card's data ready at `arrival`; returns the list into which transfers go."""
    transfers: list[Transfer] = []
    interop.collective_arrival = lambda *call: arrival  # type: ignore[assignment]
    interop.collective_done = lambda transfer, waits: transfers.append(transfer)  # type: ignore[assignment]
    return transfers


def three_operations(rank: int, size: int) -> list[Transfer]:
    transfers = recorded(arrival=float(rank))
    tensors = [torch.ones(length, device="hpu") for length in (1 << 20, 1 << 10)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    works[1].wait()  # accounts the first one too: in the order of issue
    assert [transfer.operation for transfer in transfers] == ["all_reduce", "all_reduce"]
    dist.all_reduce(torch.ones(1 << 20), async_op=True).wait()  # host memory: no modelled time
    assert len(transfers) == 2
    works[0].wait()
    dist.barrier()
    return transfers


def mesh(cards: int) -> Group:
    return Network.of_environment(load_card("gaudi2"), 8).group([Place(0, module) for module in range(cards)])


def test_every_rank_ends_a_collective_at_the_same_moment() -> None:
    size = 3
    ranks = [outcome.value for outcome in run_ranks(size, three_operations, backend="hccl")]
    first = (size - 1) + mesh(size).seconds("all_reduce", 4 << 20)
    second = first + mesh(size).seconds("all_reduce", 4 << 10)  # behind the first one: the links are busy until then
    for rank, (large, small, barrier) in enumerate(ranks):
        assert (large.nbytes, large.begin, large.end) == (4 << 20, float(rank), first)
        assert (large.waited, large.last) == (float(size - 1 - rank), None if rank == size - 1 else size - 1)
        assert (small.start, small.end) == (first, second)
        assert (barrier.operation, barrier.nbytes) == ("barrier", 0)


def pair(rank: int, size: int) -> list[Transfer]:
    transfers = recorded(arrival=3.0 * rank)
    tensor = torch.ones(1000, device="hpu")
    dist.send(tensor, 1) if rank == 0 else dist.recv(tensor, 0)
    return transfers


def test_a_transfer_begins_with_the_later_of_its_two_ends() -> None:
    (sent,), (received,) = (outcome.value for outcome in run_ranks(2, pair, backend="hccl"))
    end = 3.0 + mesh(2).seconds("send_recv", 4000)
    assert (sent.operation, sent.nbytes, sent.begin, sent.end, sent.waited, sent.last) == (
        "send",
        4000,
        0.0,
        end,
        3.0,
        1,
    )
    assert (received.operation, received.begin, received.end, received.waited) == ("recv", 3.0, end, 0.0)


def two_groups(rank: int, size: int) -> list[Transfer]:
    transfers = recorded(arrival=0.0)
    other = dist.new_group([0, 1])
    tensors = [torch.ones(1 << 20, device="hpu") for _ in range(2)]
    works = [dist.all_reduce(tensors[0], async_op=True), dist.all_reduce(tensors[1], group=other, async_op=True)]
    for work in works:
        work.wait()
    dist.all_reduce(tensors[1], group=other)
    return transfers


def test_two_groups_at_once_share_the_ports() -> None:
    """The second of two equal transfers on the same ports ends when both would; alone again, one takes its time."""
    alone = mesh(2).seconds("all_reduce", 4 << 20)
    for outcome in run_ranks(2, two_groups, backend="hccl"):
        first, second, third = outcome.value
        assert (first.end, second.end) == (alone, 2 * alone)
        assert third.seconds == pytest.approx(alone)


def fences(rank: int, size: int) -> list[float]:
    results = []
    tensor = torch.full((50_000,), float(rank), device="hpu")
    dist.all_reduce(tensor, async_op=True)  # nobody waits for the handle
    tensor.add_(1)
    results.append(tensor[7].item())
    other = torch.full((3,), float(rank), device="hpu")
    dist.broadcast(other, 1, async_op=True)
    results.append(other.cpu()[2].item())
    # The message is what the tensor was, though the card goes on with it before anybody receives.
    if rank == 0:
        message = torch.full((70_000,), 5.0, device="hpu")
        work = dist.isend(message, 1)
        message.zero_()
        assert message.sum().item() == 0
        dist.barrier()
        work.wait()
    else:
        received = torch.zeros(70_000, device="hpu")
        if rank == 2:
            dist.barrier()
        else:
            dist.barrier()
            dist.recv(received, 0)
            results.append(received.sum().item())
    return results


def test_the_card_waits_for_collectives_whose_handle_was_dropped() -> None:
    values = [outcome.value for outcome in run_ranks(3, fences, backend="hccl")]
    assert values == [[4.0, 1.0], [4.0, 1.0, 350_000.0], [4.0, 1.0]]


def test_a_ledger_settles_up_to_a_number() -> None:
    done: list[tuple[str, str]] = []
    original = interop.collective_done
    interop.collective_done = lambda transfer, waits: done.append((transfer.operation, waits))  # type: ignore[assignment]
    try:
        ledger = Ledger(Line(mesh(2), "0", (0, 1), Place(0, 0)))
        for sequence, name in ((1, "a"), (2, "b"), (4, "c")):
            ledger.enter(sequence, Transfer(name, 0, "0", (0, 1), 0.0, 0.0, 0.0, 1.0))
        ledger.settle(3)
        assert done == [("a", "stream"), ("b", "stream")]
        ledger.settle(3)
        ledger.settle(9, "host")
        assert done[2:] == [("c", "host")]
    finally:
        interop.collective_done = original  # type: ignore[assignment]


def wide_types(rank: int, size: int) -> list[Transfer]:
    transfers = recorded(arrival=0.0)
    for dtype in (torch.int64, torch.float64, torch.int32):
        dist.all_reduce(torch.ones(1000, dtype=dtype, device="hpu"))
    tensor = torch.ones(1000, dtype=torch.int64, device="hpu")
    dist.send(tensor, 1) if rank == 0 else dist.recv(tensor, 0)
    rows = torch.ones(2, 500, dtype=torch.int64, device="hpu")
    dist.all_to_all_single(torch.empty_like(rows), rows)
    return transfers


def test_what_the_card_holds_in_32_bits_travels_as_such() -> None:
    for outcome in run_ranks(2, wide_types, backend="hccl"):
        assert [transfer.nbytes for transfer in outcome.value] == [4000] * 5


def uneven(rank: int, size: int) -> list[Transfer]:
    transfers = recorded(arrival=0.0)
    other = dist.new_group([0, 1])
    rows = [torch.ones(size * (1 << 18), device="hpu") for _ in range(2)]
    work = dist.all_to_all_single(rows[0], rows[1], async_op=True)
    behind = dist.all_reduce(torch.ones(1 << 20, device="hpu"), group=other, async_op=True)
    behind.wait()
    work.wait()
    return transfers


def test_an_all_to_all_shares_the_ports_before_its_sizes_are_agreed() -> None:
    nbytes = 2 << 20
    first, second = mesh(2).seconds("all_to_all", nbytes), mesh(2).seconds("all_reduce", 4 << 20)
    for outcome in run_ranks(2, uneven, backend="hccl"):
        behind, moved = outcome.value
        assert (moved.nbytes, moved.end) == (nbytes, first)
        assert behind.end == pytest.approx(second + min(first, second))


def failures(rank: int, size: int) -> list[str]:
    notes: list[str] = []
    recorded(arrival=0.0)
    interop.collective_failed = lambda operation, group, ranks: notes.append(f"{operation} failed")  # type: ignore[assignment]
    interop.collectives_missed = (  # type: ignore[assignment]
        lambda operation, count, group, ranks: notes.append(f"{count} {operation} missed")
    )
    interop.collective_done = lambda transfer, waits: notes.append(transfer.operation)  # type: ignore[assignment]
    for _ in range(2):
        dist.all_reduce(torch.ones(3))  # before there is a card
    tensor = torch.ones(3 + rank, device="hpu")
    work = dist.all_reduce(tensor, async_op=True)
    with pytest.raises(CollectiveError, match="disagree"):
        work.wait()
    tensor.add_(1)
    assert tensor[0].item() == 2.0  # told once: what comes later is not held up by it
    dist.broadcast(torch.ones(3), 0)  # host memory
    dist.broadcast(torch.ones(3, device="hpu"), 0)
    return notes


def test_what_fails_and_what_the_card_has_no_part_in_is_told_in_the_order_of_the_program() -> None:
    for outcome in run_ranks(2, failures, backend="hccl"):
        assert outcome.value == ["2 all_reduce missed", "all_reduce failed", "1 broadcast missed", "broadcast"]


def steps(rank: int, size: int) -> dict[str, float]:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).to("hpu"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.ones(8, 64).to("hpu")).sum().backward()
        optimizer.step()
        torch.hpu.synchronize()
    report = torch.hpu.synchronize() or None
    assert report is None
    from_card = interop.runtime.card().report()
    return {**from_card["collectives"], "total": from_card["time"]["total"]}


def test_the_report_of_a_run_does_not_depend_on_the_machine() -> None:
    first, second = run_ranks(2, steps, backend="hccl"), run_ranks(2, steps, backend="hccl")
    assert [outcome.value for outcome in first] == [outcome.value for outcome in second]
    assert first[0].value["count"] >= 4 and first[0].value["seconds"] > 0
