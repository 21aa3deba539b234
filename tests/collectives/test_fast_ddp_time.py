"""Where the host cannot keep up, `all_reduce_gradients` gives a shorter step than DDP, and the report says why."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import habana_frameworks.torch.core as htcore
from collectives import all_reduce_gradients
from device.backend import runtime

from .hccl_ranks import run_ranks

STEPS = 8


def train(rank: int, size: int, is_fast: bool) -> dict[str, Any]:
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU()) for _ in range(20)]
    model = nn.Sequential(*layers).to("hpu")
    forward = model if is_fast else nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        forward(torch.randn(32, 64).to("hpu")).pow(2).mean().backward()
        if is_fast:
            all_reduce_gradients(model)
        htcore.mark_step()
        optimizer.step()
        optimizer.zero_grad(set_to_none=not is_fast)  # what HPU graphs have recorded must stay where it is
        htcore.mark_step()
    torch.hpu.synchronize()
    return runtime.card().report()


def test_fast_ddp_is_faster_where_the_host_is_the_bottleneck() -> None:
    (ddp, *_), (fast, *_) = (
        [outcome.value for outcome in run_ranks(2, train, is_fast, backend="hccl", PT_HPU_LAZY_MODE="1")]
        for is_fast in (False, True)
    )
    assert all(report["utilization"] < 0.05 for report in (ddp, fast))  # the card waits for the host
    assert fast["time"]["step"] < ddp["time"]["step"]

    def seconds(report: dict[str, Any]) -> float:
        return sum(work["seconds"] for name, work in report["host_work"].items() if name != "compile")

    assert seconds(fast) < seconds(ddp)
    # DDP does something for each gradient; all_reduce_gradients replays two graphs.
    assert ddp["host_work"]["ddp"]["count"] == STEPS and "ddp" not in fast["host_work"]
    assert fast["host_work"]["graph replay"]["count"] == 2 * STEPS and "graph replay" not in ddp["host_work"]
    reduced = [row["count"] for row in fast["collectives"]["operations"] if row["operation"] == "all_reduce"]
    assert reduced == [STEPS]
