"""One rank of a job alone, without communication."""

from __future__ import annotations

import pytest

CODE = """
import torch, torch.distributed as dist
import habana_frameworks.torch.distributed.hccl
dist.init_process_group("hccl")
x = torch.ones(3, device="hpu")
dist.all_reduce(x)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1).to("hpu"))
model(x).sum().backward()
print(dist.get_rank(), dist.get_world_size(), x.tolist())
"""
JOB = {"WORLD_SIZE": "8", "LOCAL_RANK": "3", "PT_HPU_EMULATE_DISTRIBUTED": "1"}


def test_the_chosen_rank_runs_and_meets_nobody(script) -> None:
    done = script(CODE, RANK="3", PT_HPU_EMULATE_DISTRIBUTED_SINGLE_RANK="3", **JOB)
    assert done.stdout == "3 8 [1.0, 1.0, 1.0]\n"


def test_every_other_rank_ends_at_once(script) -> None:
    done = script(CODE, RANK="2", PT_HPU_EMULATE_DISTRIBUTED_SINGLE_RANK="3", **JOB)
    assert done.stdout == "" and "rank 3 of the job runs alone; rank 2 ends here" in done.stderr


@pytest.mark.parametrize(("rank", "keep", "wrong"), [("3", "third", "SINGLE_RANK='third'"), ("x", "3", "RANK='x'")])
def test_a_rank_that_is_none(script, rank: str, keep: str, wrong: str) -> None:
    done = script(CODE, RANK=rank, PT_HPU_EMULATE_DISTRIBUTED_SINGLE_RANK=keep, check=False, **JOB)
    assert done.returncode != 0 and f"{wrong} is no rank" in done.stderr
