"""Groups and sub-groups, how processes start, and what torch.distributed asks of a backend."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import collectives

from .hccl_ranks import HOST, run_ranks


def subgroups(rank: int, size: int) -> list[float]:
    even = dist.new_group([r for r in range(size) if r % 2 == 0])
    pair = dist.new_group([size - 1, 1], timeout=timedelta(seconds=7))
    alone = dist.new_group([2])
    results = []
    if rank % 2 == 0:
        tensor = torch.full((5,), float(rank))
        dist.all_reduce(tensor, group=even)
        results.append(tensor[0].item())
        dist.broadcast(tensor, 2, group=even)
    if rank in (1, size - 1):
        tensor = torch.full((3,), float(rank))
        dist.all_reduce(tensor, group=pair)
        results.append(tensor[0].item())
        received = torch.zeros(2)
        dist.send(torch.ones(2), 1, group=pair) if rank != 1 else dist.recv(received, size - 1, group=pair)
        assert rank != 1 or received.sum() == 2
        dist.destroy_process_group(pair)
    if rank == 2:
        dist.all_reduce(torch.ones(1), group=alone)
    dist.barrier()
    return results


def test_subgroups_work_at_the_same_time() -> None:
    values = [outcome.value for outcome in run_ranks(5, subgroups)]
    assert values == [[6.0], [5.0], [6.0], [], [6.0, 5.0]]


def disagree_in_subgroup(rank: int, size: int) -> str:
    group = dist.new_group([1, 3])
    if rank in (1, 3):
        try:
            dist.all_reduce(torch.ones(rank), group=group)
        except RuntimeError as error:
            return str(error)
    return ""


def test_messages_count_ranks_as_the_whole_job_does() -> None:
    text = run_ranks(4, disagree_in_subgroup)[3].value
    assert "rank 1 called all_reduce(SUM) #1 of float32[1]; rank 3 called all_reduce(SUM) #1 of float32[3]" in text


def crossed(rank: int, size: int) -> None:
    one, two = dist.new_group([0, 1]), dist.new_group([0, 1])
    first, second = (one, two) if rank == 0 else (two, one)
    tensors = {first: torch.full((40_000,), 1.0), second: torch.full((40_000,), 2.0)}
    works = [dist.all_reduce(tensor, group=group, async_op=True) for group, tensor in tensors.items()]
    for work in works:
        work.wait()
    assert tensors[one][0] == 3 and tensors[two][0] == 3


def test_groups_do_not_wait_for_each_other() -> None:
    run_ranks(2, crossed)


def again(rank: int, size: int, store: str) -> None:
    for attempt in range(3):
        dist.init_process_group(
            HOST, init_method=f"file://{store}{attempt}", rank=rank, world_size=size, timeout=timedelta(seconds=20)
        )
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        assert tensor[0] == size
        dist.destroy_process_group()
    with pytest.raises(ValueError, match="not been initialized"):
        dist.all_reduce(torch.ones(3))


def test_a_group_can_be_made_again_after_its_end(tmp_path: Path) -> None:
    run_ranks(2, again, f"{tmp_path}/store", backend="")


def unawaited(rank: int, size: int) -> float:
    tensor = torch.full((300_000,), float(rank))
    dist.all_reduce(tensor, async_op=True)
    dist.destroy_process_group()
    return tensor[-1].item()


def test_the_end_of_a_group_finishes_what_nobody_waited_for() -> None:
    assert {outcome.value for outcome in run_ranks(3, unawaited)} == {3.0}


def after_the_end(rank: int, size: int) -> list[str]:
    group = dist.group.WORLD
    dist.destroy_process_group()
    texts = []
    for attempt in (lambda: group.allreduce([torch.ones(1)]), lambda: group.send([torch.ones(1)], 0, 0)):
        try:
            attempt()
        except RuntimeError as error:
            texts.append(str(error))
    return texts


def test_a_destroyed_group_says_so() -> None:
    for text in run_ranks(1, after_the_end)[0].value:
        assert "cannot be used any more: destroy_process_group" in text


def identity(rank: int, size: int) -> tuple[object, ...]:
    group = dist.group.WORLD
    assert isinstance(group, collectives.HcclProcessGroup)
    assert group.name() == "hccl" and group.group_desc == "default_pg"
    assert dist.get_rank() == rank == group.rank() and dist.get_world_size() == size == group.size()
    before = group._get_sequence_number_for_group()
    dist.barrier()
    assert group._get_sequence_number_for_group() == before + 1
    group.set_timeout(timedelta(seconds=9))
    assert group.communicator.timeout_s == 9
    with dist._coalescing_manager(group, torch.device("cpu"), async_ops=True) as manager:
        tensors = [torch.ones(2), torch.ones(3)]
        for tensor in tensors:
            group.allreduce([tensor])
    manager.wait()
    assert all((tensor == size).all() for tensor in tensors)
    return dist.get_backend(), [str(kind) for kind in group._device_types]


def test_what_torch_sees_of_a_group() -> None:
    assert run_ranks(2, identity)[0].value == (HOST, ["cpu"])
    assert dist.Backend.backend_capability["hccl"] == ["hpu"]
    assert dist.Backend.default_device_backend_map["hpu"] == "hccl"


def mixed(rank: int, size: int, store: str) -> None:
    dist.init_process_group("cpu:gloo,hpu:hccl", init_method=f"file://{store}", rank=rank, world_size=size)
    for device in ("cpu", "hpu"):
        tensor = torch.full((4,), float(rank), device=device)
        dist.all_reduce(tensor)
        assert tensor.sum().item() == 4 * size * (size - 1) / 2
    dist.destroy_process_group()


def test_the_mixed_backend_string_is_taken(tmp_path: Path) -> None:
    run_ranks(2, mixed, f"{tmp_path}/store", backend="")


@pytest.mark.slow
def test_torchrun_starts_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "import habana_frameworks.torch.distributed.hccl\n"
        "dist.init_process_group('hccl')\n"
        "t = torch.ones(3, device='hpu') * (dist.get_rank() + 1)\n"
        "dist.all_reduce(t)\n"
        "print(f'sum {t.sum().item()}\\n', end='', flush=True)\n"
        "dist.destroy_process_group()\n"
    )
    environ = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environ,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.count("sum 9.0") == 2, done.stdout + done.stderr
