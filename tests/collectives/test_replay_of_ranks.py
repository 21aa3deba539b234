"""What ranks did, in odd ways, and its replay on the same cards: the same figures to the last bit."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.distributed as dist

import collectives
import habana_frameworks.torch.core as htcore
from collectives.errors import CollectiveError
from device.backend import runtime
from habana_frameworks.torch import hpu
from hpucluster.replay import compare
from hpucluster.report import FORMAT
from hpucluster.run_logs import share_logs

from .hccl_ranks import run_ranks

SIZE = 3


def compute(times: int) -> None:
    product = torch.ones(256, 256, device="hpu")
    for _ in range(times):
        product = product @ product * 1e-3
    htcore.mark_step()


def before_every_rank_has_a_card(rank: int) -> None:
    if rank == 0:
        compute(2)
    dist.barrier()
    dist.barrier()


def groups_at_once(rank: int, others: Any, pair: Any) -> None:
    large, small = torch.ones(1 << 18, device="hpu"), torch.ones(1 << 14, device="hpu")
    works = [dist.all_reduce(large, async_op=True), dist.all_reduce(small, group=others, async_op=True)]
    compute(1 + rank)
    works.append(dist.reduce(torch.ones(1 << 16, device="hpu"), 2, group=others, async_op=True))
    works[2].wait()
    if rank in (1, 2):
        dist.broadcast(large, 1, group=pair)
        dist.all_reduce(small, group=pair, async_op=True)  # nobody waits for it
    works[0].wait()


def uneven(rank: int, others: Any) -> None:
    out = [(rank + other) % SIZE + 1 for other in range(SIZE)]  # symmetrical: the same to and from each rank
    source, target = torch.ones(sum(out), 1000, device="hpu"), torch.empty(sum(out), 1000, device="hpu")
    work = dist.all_to_all_single(target, source, out, out, async_op=True)
    dist.all_reduce(target.new_ones(1 << 17), group=others)
    work.wait()
    told: list[Any] = [None] * SIZE
    dist.all_gather_object(told, {"rank": rank})
    dist.broadcast_object_list([rank], src=1)
    dist.barrier(async_op=True)  # rank 1 has not read what it sent


def messages(rank: int) -> None:
    tensor = torch.ones(1 << 16, device="hpu")
    if rank == 0:
        for work in [dist.isend(tensor, other) for other in (1, 2)]:
            work.wait()
    else:
        compute(rank)
        dist.recv(tensor, 0)
    dist.isend(tensor, (rank + 1) % SIZE)  # nobody waits for it
    received = torch.empty_like(tensor)
    waited = dist.irecv(received, (rank - 1) % SIZE)
    assert waited is not None
    waited.wait()


def other_ways(rank: int) -> None:
    with hpu.stream(hpu.Stream()):
        dist.all_reduce(torch.ones(1 << 15, device="hpu") * 2)
    with collectives.timing_only():
        dist.all_reduce(torch.ones(1 << 15, device="hpu"))
    dist.all_reduce(torch.ones(7))  # host memory


def mistakes(rank: int, others: Any) -> None:
    tensor = torch.ones(3 + (rank == 1), device="hpu")
    work = dist.all_reduce(tensor, group=others, async_op=True)
    with pytest.raises(CollectiveError, match="disagree"):
        work.wait()
    compute(1 + rank)
    dist.all_reduce(torch.ones(3) if rank == 1 else torch.ones(3, device="hpu"))  # without the card of one rank


def odd(rank: int, size: int, is_recorded: bool) -> dict[str, Any]:
    runtime._settings = replace(runtime.settings(), keep_log=True)  # as under hpurun
    before_every_rank_has_a_card(rank)
    others, pair = dist.new_group([2, 1, 0]), dist.new_group([2, 1])
    for _ in range(2):
        groups_at_once(rank, others, pair)
        uneven(rank, others)
        messages(rank)
        other_ways(rank)
        if not is_recorded:  # there a mistake is found when the graph runs
            mistakes(rank, others)
    dist.destroy_process_group()
    return {"rank": rank, "used": True, **runtime.card().report(), "steps_per_second": 0.0}


@pytest.mark.parametrize(
    "environ",
    ({}, {"PT_HPU_LAZY_MODE": "0", "HPUCLUSTER_CARDS_PER_BOX": "2"}, {"PT_HPU_ENABLE_LAZY_COLLECTIVES": "1"}),
    ids=("lazy", "eager, two boxes", "recorded"),
)
def test_a_replay_on_the_same_cards_is_the_run(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    is_recorded = "PT_HPU_ENABLE_LAZY_COLLECTIVES" in environ
    cards = [outcome.value for outcome in run_ranks(SIZE, odd, is_recorded, backend="hccl", **environ)]
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    records, logs = share_logs(cards)
    report = {"format": FORMAT, "run": {"network": None}, "cards": records, "logs": logs}
    comparison = compare(json.loads(json.dumps(report)))
    assert comparison["unmatched"] == 0
    for card, replayed in zip(cards, comparison["recorded"], strict=True):
        assert replayed["time"] == card["time"]
        assert replayed["collectives"] == card["collectives"]
        figures, time = card["collectives"], card["time"]
        for name in ("count", "bytes", "seconds", "waited", "exposed", "hidden"):
            assert figures[name] == pytest.approx(sum(row[name] for row in figures["operations"]))
        assert figures["waited"] == pytest.approx(sum(wait["seconds"] for wait in figures["waited_for"]))
        assert figures["hidden"] <= figures["seconds"]
        assert card["engines"]["NIC"] <= time["total"]
        assert time["total"] == pytest.approx(sum(time[name] for name in ("host", "compile", "device", "collectives")))
