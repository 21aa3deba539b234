"""Nothing stays behind: no shared memory with a name, no process, however the ranks end."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
import torch
import torch.distributed as dist

import collectives
from collectives.transport.shared_memory import Segment, segment_name

from .hccl_ranks import SHM, leftovers, run_ranks


def uses_everything(rank: int, size: int) -> list[str]:
    dist.all_reduce(torch.ones(500_000))
    works = [dist.isend(torch.ones(10), (rank + 1) % size), dist.irecv(torch.ones(10), (rank - 1) % size)]
    for work in works:
        work.wait()
    subgroup = dist.new_group([0, 1])
    if rank < 2:
        dist.all_reduce(torch.ones(3), group=subgroup)
    dist.barrier()
    return [name for name in os.listdir(SHM) if name.startswith(f"hpucluster-{os.environ['HPUCLUSTER_JOB_ID']}-")]


def test_segments_have_no_name_while_they_are_used() -> None:
    for outcome in run_ranks(3, uses_everything):
        assert outcome.value == []
    assert leftovers() == []


def works_until_killed(rank: int, size: int) -> None:
    data = torch.ones(200_000)
    while True:
        dist.all_reduce(data)


def kill_all(processes: list[Any]) -> None:
    time.sleep(0.6)
    for process in processes:
        os.kill(process.pid, signal.SIGKILL)


def test_nothing_is_left_when_all_ranks_are_killed_at_once() -> None:
    for _ in range(3):
        outcomes = run_ranks(4, works_until_killed, on_start=kill_all, may_fail=True)
        assert all(outcome.exitcode == -signal.SIGKILL for outcome in outcomes)
        assert leftovers() == []


def kill_one(processes: list[Any]) -> None:
    time.sleep(0.5)
    os.kill(processes[2].pid, signal.SIGKILL)


@pytest.mark.slow
def test_the_others_end_when_one_is_killed_twenty_times() -> None:
    for _ in range(20):
        outcomes = run_ranks(8, works_until_killed, on_start=kill_one, may_fail=True, timeout=60, limit=10)
        for rank, outcome in enumerate(outcomes):
            if rank != 2:
                assert outcome.error == "PeerLost" and "rank 2 (process" in outcome.text, (rank, outcome)
        assert leftovers() == []


def test_leftovers_of_a_killed_start_can_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPUCLUSTER_JOB_ID", f"test{os.getpid()}-x")
    segment = Segment.create(segment_name("0", "signals"), 4096)
    assert leftovers() == [segment.name]
    assert collectives.remove_leftovers(f"test{os.getpid()}-y") == 0
    assert collectives.remove_leftovers(f"test{os.getpid()}-x") == 1
    assert leftovers() == []


def test_a_segment_that_exists_or_has_another_size_is_refused() -> None:
    segment = Segment.create(segment_name("0", "signals"), 4096)
    try:
        for attempt in (lambda: Segment.create(segment.name, 64), lambda: Segment.attach(segment.name, 64)):
            with pytest.raises(collectives.SharedMemoryError, match=segment.name):
                attempt()
    finally:
        segment.unlink()
    with pytest.raises(collectives.SharedMemoryError, match="cannot open"):
        Segment.attach(segment.name, 4096)
