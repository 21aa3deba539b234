"""Collectives that are nodes of the recorded graph: PT_HPU_ENABLE_LAZY_COLLECTIVES=1."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.distributed as dist

import habana_frameworks.torch as ht
import habana_frameworks.torch.core as htcore
from device.backend import runtime
from hpucluster.replay import compare
from hpucluster.report import FORMAT
from hpucluster.run_logs import share_logs

from .hccl_ranks import Outcome, run_ranks

LAZY = {"PT_HPU_LAZY_MODE": "1", "PT_HPU_ENABLE_LAZY_COLLECTIVES": "1"}


def step(rank: int, size: int, weight: torch.Tensor) -> list[torch.Tensor]:
    product = torch.full((64, 64), float(rank + 1)).to("hpu") @ weight
    dist.all_reduce(product, async_op=True)  # what uses the result comes after it
    gathered = torch.empty(4 * size, device="hpu")
    dist.all_gather_into_tensor(gathered, torch.full((4,), float(rank), device="hpu"))
    scattered = torch.empty(2, device="hpu")
    dist.reduce_scatter_tensor(scattered, torch.arange(2.0 * size, device="hpu"), op=dist.ReduceOp.MAX)
    told = torch.full((3,), float(rank), device="hpu")
    dist.broadcast(told, 1)
    exchanged = torch.empty(size, device="hpu")
    dist.all_to_all_single(exchanged, torch.arange(float(size), device="hpu") + 10 * rank)
    return [(product * 2).mean(), gathered, scattered, told, exchanged]


def run(rank: int, size: int) -> tuple[list[Any], dict[str, Any]]:
    runtime._settings = replace(runtime.settings(), keep_log=True)  # as under hpurun
    weight = torch.ones(64, 64).to("hpu")
    for _ in range(3):
        results = step(rank, size, weight)
        htcore.mark_step()
    values = [result.tolist() for result in results]
    return values, {"rank": rank, "used": True, **runtime.card().report(), "steps_per_second": 0.0}


def expected(rank: int, size: int) -> list[Any]:
    return [
        2 * 64.0 * size * (size + 1) / 2,
        [float(other) for other in range(size) for _ in range(4)],
        [2.0 * rank, 2.0 * rank + 1],
        [1.0, 1.0, 1.0],
        [10.0 * other + rank for other in range(size)],
    ]


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return run_ranks(2, run, backend="hccl", **LAZY)


def test_one_graph_holds_them_all(outcomes: list[Outcome]) -> None:
    for rank, outcome in enumerate(outcomes):
        values, card = outcome.value
        assert values == expected(rank, 2)
        assert card["graphs_compiled"] == 1
        assert [(row["operation"], row["count"]) for row in card["collectives"]["operations"]] == [
            ("all_gather_into_tensor", 3),
            ("all_reduce", 3),
            ("all_to_all_single", 3),
            ("broadcast", 3),
            ("reduce_scatter_tensor", 3),
        ]
        assert card["engines"]["NIC"] == pytest.approx(card["collectives"]["seconds"])


def test_a_replay_agrees(outcomes: list[Outcome]) -> None:
    cards = [outcome.value[1] for outcome in outcomes]
    shared, logs = share_logs(cards)
    report = {"format": FORMAT, "run": {"target": "train.py", "network": None}, "cards": shared, "logs": logs}
    both = compare(json.loads(json.dumps(report)))
    for card, recorded in zip(cards, both["recorded"], strict=True):
        assert recorded["time"] == card["time"]
        assert recorded["collectives"] == card["collectives"]
    assert both["unmatched"] == 0


def captured(rank: int, size: int) -> list[float]:
    graph, x = ht.hpu.HPUGraph(), torch.ones(8, device="hpu")
    with ht.hpu.graph(graph):
        y = x * (rank + 1)
        dist.all_reduce(y)
        z = y + 1
    values = []
    for value in (1.0, 2.0):
        x.fill_(value)
        graph.replay()
        values.append(z[0].item())
    return values


def test_an_hpu_graph_captures_them() -> None:
    assert [outcome.value for outcome in run_ranks(2, captured, backend="hccl", **LAZY)] == [[4.0, 7.0]] * 2


def disagreeing(rank: int, size: int) -> str:
    tensor = torch.ones(3 + rank, device="hpu")
    dist.all_reduce(tensor)
    with pytest.raises(RuntimeError) as error:
        tensor.cpu()
    return str(error.value)


def test_ranks_that_disagree_are_named() -> None:
    for outcome in run_ranks(2, disagreeing, backend="hccl", **LAZY):
        assert "ranks disagree" in outcome.value and "float32[3]" in outcome.value and "float32[4]" in outcome.value
