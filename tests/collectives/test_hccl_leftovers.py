"""Nothing stays behind: no shared memory with a name, no process, however the ranks end."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import collectives
from collectives.transport.shared_memory import Segment, segment_name

from .hccl_ranks import HOST, SHM, leftovers, reduce_until_killed, run_ranks


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
    reduce_until_killed(200_000)


def kill_all(processes: list[Any]) -> None:
    for process in processes:
        os.kill(process.pid, signal.SIGKILL)


def test_nothing_is_left_when_all_ranks_are_killed_at_once() -> None:
    for _ in range(3):
        outcomes = run_ranks(4, works_until_killed, on_begun=kill_all, may_fail=True)
        assert all(outcome.exitcode == -signal.SIGKILL for outcome in outcomes)
        assert leftovers() == []


def reduces_until_killed(rank: int, size: int) -> None:
    reduce_until_killed(2_000_000)


@pytest.mark.slow
def test_the_others_end_within_ten_seconds_when_one_is_killed_in_an_all_reduce() -> None:
    for turn in range(20):
        victim = turn % 8

        def kill(processes: list[Any], victim: int = victim) -> None:
            os.kill(processes[victim].pid, signal.SIGKILL)

        # `limit` counts from the kill: a rank that answers later has no outcome, one that ends later no exit code.
        outcomes = run_ranks(8, reduces_until_killed, on_begun=kill, may_fail=True, timeout=60, limit=10)
        assert outcomes[victim].exitcode == -signal.SIGKILL
        for rank, outcome in enumerate(outcomes):
            if rank != victim:
                named = outcome.error == "PeerLost" and f"rank {victim} (process" in outcome.text
                assert named and outcome.exitcode == 0, (turn, rank, outcome)
        assert leftovers() == []


def kill_during_start(processes: list[Any], pause: float) -> None:
    time.sleep(pause)
    for process in processes:
        os.kill(process.pid, signal.SIGKILL)


def test_nothing_is_left_when_all_ranks_are_killed_while_they_start() -> None:
    for step in range(15):
        pause = 0.01 + 0.008 * step
        run_ranks(3, works_until_killed, on_start=lambda all, pause=pause: kill_during_start(all, pause), may_fail=True)
        assert leftovers() == []


def without_proc(rank: int, size: int, store: str, refuses: str) -> float:
    attach, offered = Segment.attach, []

    def only_names(name: str, path: str, nbytes: int, inode: int) -> Segment:
        offered.append(path)
        if rank and path.startswith(refuses):
            raise collectives.SharedMemoryError("cannot open")
        return attach(name, path, nbytes, inode)

    Segment.attach = only_names  # type: ignore[method-assign,assignment]
    dist.init_process_group(HOST, init_method=f"file://{store}", rank=rank, world_size=size)
    tensor = torch.ones(300_000)
    dist.all_reduce(tensor)
    assert rank == 0 or any(path.startswith(SHM) for path in offered)
    return tensor[0].item()


def test_a_segment_gets_a_name_where_proc_cannot_be_used(tmp_path: Path) -> None:
    outcomes = run_ranks(3, without_proc, f"{tmp_path}/store", "/proc", backend="")
    assert [outcome.value for outcome in outcomes] == [3.0] * 3
    assert leftovers() == []


def test_ranks_that_do_not_share_memory_are_told(tmp_path: Path) -> None:
    for outcome in run_ranks(2, without_proc, f"{tmp_path}/store", "/", backend="", may_fail=True):
        assert "cannot open" in outcome.text
    assert leftovers() == []


def test_leftovers_of_a_killed_start_can_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPUCLUSTER_JOB_ID", f"test{os.getpid()}-x")
    segment = Segment.create(segment_name("0", "signals"), 4096)
    assert leftovers() == []
    assert segment.give_name() and not segment.give_name()
    assert leftovers() == [segment.name]
    assert collectives.remove_leftovers(f"test{os.getpid()}-y") == 0
    assert collectives.remove_leftovers(f"test{os.getpid()}-x") == 1
    assert leftovers() == []


def test_another_file_or_one_that_is_gone_is_refused() -> None:
    segment = Segment.create(segment_name("0", "signals"), 4096)
    segment.memory[5] = 7
    assert Segment.attach("a", segment.path, 4096, segment.inode).memory[5] == 7
    for nbytes, inode in ((64, segment.inode), (4096, segment.inode + 1)):
        with pytest.raises(collectives.SharedMemoryError, match="has 4096 bytes and inode"):
            Segment.attach("a", segment.path, nbytes, inode)
    segment.close()
    with pytest.raises(collectives.SharedMemoryError, match="cannot open"):
        Segment.attach("a", segment.path, 4096, segment.inode)
