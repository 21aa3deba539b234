"""send and recv."""

from __future__ import annotations

import torch
import torch.distributed as dist

from .hccl_ranks import run_ranks


def ring(rank: int, size: int) -> None:
    following, previous = (rank + 1) % size, (rank - 1) % size
    for length in (0, 1, 1000, 700_001):
        for dtype in (torch.float32, torch.bfloat16, torch.bool):
            message = (torch.arange(length) % 7 + rank).to(dtype)
            received = torch.zeros(length, dtype=dtype)
            works = [dist.isend(message, following), dist.irecv(received, previous)]
            for work in works:
                work.wait()
            assert torch.equal(received, (torch.arange(length) % 7 + previous).to(dtype)), (length, dtype)


def test_both_directions_at_once_do_not_block_each_other() -> None:
    for size in (1, 2, 3):
        run_ranks(size, ring)


def many(rank: int, size: int) -> None:
    other = 1 - rank
    outgoing = [torch.full((length,), float(100 * rank + length)) for length in range(1, 30)]
    incoming = [torch.zeros(length) for length in range(1, 30)]
    works = [dist.isend(tensor, other, tag=number) for number, tensor in enumerate(outgoing)]
    works += [dist.irecv(tensor, other, tag=number) for number, tensor in enumerate(incoming)]
    for work in reversed(works):
        work.wait()
    assert all((tensor == 100 * other + len(tensor)).all() for tensor in incoming)
    batch = [dist.P2POp(dist.irecv, incoming[5], other), dist.P2POp(dist.isend, outgoing[5], other)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    if rank == 0:
        dist.send(torch.arange(6.0).reshape(2, 3).t(), 1)
    else:
        matrix = torch.zeros(2, 3)
        dist.recv(matrix.t(), 0)
        assert torch.equal(matrix, torch.arange(6.0).reshape(2, 3))
        flat = torch.zeros(6)
    if rank == 0:
        dist.send(torch.arange(6.0).reshape(2, 3), 1)
    else:
        dist.recv(flat, 0)
        assert torch.equal(flat, torch.arange(6.0))


def test_messages_of_a_pair_keep_their_order() -> None:
    run_ranks(2, many)


def disagree(rank: int, size: int) -> list[str]:
    errors = []
    for mine, yours, tags in (
        (torch.ones(4), torch.ones(5), (0, 0)),
        (torch.ones(4), torch.ones(4, dtype=torch.float64), (0, 0)),
        (torch.ones(4), torch.ones(4), (1, 2)),
    ):
        try:
            if rank == 0:
                dist.send(mine, 1, tag=tags[0])
            else:
                dist.recv(yours, 0, tag=tags[1])
        except RuntimeError as error:
            errors.append(str(error))
    received = torch.zeros(3)
    dist.send(torch.ones(3), 1) if rank == 0 else dist.recv(received, 0)
    assert rank == 0 or received.sum() == 3
    return errors


def test_a_mismatch_is_an_error_on_both_sides_and_the_channel_goes_on() -> None:
    sender, receiver = (outcome.value for outcome in run_ranks(2, disagree))
    assert sender == receiver and len(sender) == 3
    assert "rank 0 called send #1 to rank 1 of float32[4]" in sender[0]
    assert "rank 1 called recv #1 from rank 0 of float32[5]" in sender[0]
    assert "float64[4]" in sender[1] and "tags 1 and 2" in sender[2]


def refuse(rank: int, size: int) -> list[str]:
    errors = []
    for attempt in (
        lambda: dist.recv(torch.ones(1)),
        lambda: dist.group.WORLD.send([torch.ones(1)], 7, 0),
        lambda: dist.send(torch.ones(3, dtype=torch.int16), 1 - rank),
    ):
        try:
            attempt()
        except RuntimeError as error:
            errors.append(str(error))
    return errors


def test_refusals() -> None:
    any_source, no_rank, dtype = run_ranks(2, refuse)[0].value
    assert "cannot receive from any source" in any_source and "src=" in any_source
    assert "no rank 7" in no_rank
    assert "torch.int16" in dtype and "int32" in dtype


def never_received(rank: int, size: int) -> None:
    if rank == 0:
        dist.recv(torch.zeros(2), 1)


def test_recv_without_a_send_ends_with_the_names() -> None:
    first, _ = run_ranks(2, never_received, timeout=1, may_fail=True)
    assert first.error == "PeerLost" and "recv (#1) from rank 1 of float32[2]" in first.text
