"""What goes wrong ends with a message that names ranks and operations, on every rank, and never with wrong data."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from .hccl_ranks import run_ranks, tell_begun


def message(attempt: Callable[[], Any]) -> str:
    try:
        attempt()
    except (RuntimeError, ValueError, TypeError) as error:
        return str(error)
    return "no error"


def mismatches(rank: int, size: int) -> list[str]:
    first = rank == 0
    attempts: list[Callable[[], Any]] = [
        lambda: dist.all_reduce(torch.ones(4 if first else 5)),
        lambda: dist.all_reduce(torch.ones(300_000 if first else 5)),
        lambda: dist.all_reduce(torch.ones(4, dtype=torch.float32 if first else torch.float64)),
        lambda: dist.all_reduce(torch.ones(4), op=dist.ReduceOp.SUM if first else dist.ReduceOp.MAX),
        lambda: dist.broadcast(torch.ones(4), src=0 if first else 1),
        lambda: dist.all_reduce(torch.ones(2, 3)) if first else dist.barrier(),
        lambda: dist.all_gather_into_tensor(torch.ones(size * 3), torch.ones(3)) if first else dist.barrier(),
        lambda: (
            dist.all_to_all_single(torch.ones(size), torch.ones(size + 1), [1] * size, [2] + [1] * (size - 1))
            if first
            else dist.all_to_all_single(torch.ones(size), torch.ones(size))
        ),
    ]
    errors = [message(attempt) for attempt in attempts]
    total = torch.full((100,), float(rank))
    dist.all_reduce(total)  # the group is as good as new
    assert (total == size * (size - 1) / 2).all()
    return errors


@pytest.mark.parametrize("size", (2, 3))
def test_ranks_that_disagree_get_the_same_error_and_go_on(size: int) -> None:
    outcomes = run_ranks(size, mismatches)
    errors = outcomes[0].value
    assert all(outcome.value == errors for outcome in outcomes)
    others = "rank 1" if size == 2 else "ranks 1, 2"
    assert (
        f"rank 0 called all_reduce(SUM) #1 of float32[4]; {others} called all_reduce(SUM) #1 of float32[5]" in errors[0]
    )
    assert "float32[300000]" in errors[1] and "float32[5]" in errors[1]
    assert "float32[4]" in errors[2] and "float64[4]" in errors[2]
    assert "all_reduce(SUM)" in errors[3] and "all_reduce(MAX)" in errors[3]
    assert "root 0" in errors[4] and "root 1" in errors[4]
    assert "all_reduce(SUM) #6 of float32[2, 3]" in errors[5] and "called barrier #6" in errors[5]
    assert "all_gather_into_tensor" in errors[6] and "barrier" in errors[6]
    assert "rank 0 sends 2 elements to rank 0, which expects 1" in errors[7]


def refusals(rank: int, size: int) -> list[str]:
    group = dist.group.WORLD
    average = dist.ReduceOp.AVG
    attempts: list[Callable[[], Any]] = [
        lambda: dist.all_reduce(torch.ones(2), op=average),
        lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), op=average),
        lambda: dist.reduce_scatter_tensor(torch.ones(1), torch.ones(size), op=average),
        lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32), op=dist.ReduceOp.BAND),
        lambda: dist.all_reduce(torch.ones(2, dtype=torch.int16)),
        lambda: dist.all_reduce(torch.ones(2).to(torch.float8_e5m2)),
        lambda: dist.all_reduce(torch.ones(2, 2).to_sparse()),
        lambda: group.allreduce([torch.ones(1), torch.ones(1)]),
        lambda: dist.all_gather([torch.ones(2)] * (size + 1), torch.ones(2)),
        lambda: dist.all_gather([torch.ones(3)] * size, torch.ones(2)),
        lambda: dist.all_gather_into_tensor(torch.ones(size * 2 + 1), torch.ones(2)),
        lambda: dist.all_to_all_single(torch.ones(size * 2 + 1), torch.ones(size * 2 + 1)),
        lambda: dist.all_to_all_single(torch.ones(4), torch.ones(4), [1, 2], [2, 2]),
    ]
    errors = [message(attempt) for attempt in attempts]
    dist.barrier()
    return errors


def test_what_hccl_does_not_have_is_refused_on_every_rank() -> None:
    first, second = (outcome.value for outcome in run_ranks(2, refusals))
    assert first == second
    expected = (
        "Unsupported ReduceOp for HCCL process group: all_reduce with ReduceOp.AVG",
        "Cannot use ReduceOp.AVG with boolean inputs",
        "Unsupported ReduceOp for HCCL process group: reduce_scatter_tensor",
        "ReduceOp.BAND",
        "no data type for torch.int16",
        "cannot reduce it",
        "to_dense",
        "one tensor per rank",
        "a list of 2 tensors (one per rank) is needed, got 3",
        "[3] stands beside one of [2]",
        "2 times (the group's size)",
        "does not divide by the group's 2 ranks",
        "output split sizes [1, 2] must be 2 numbers",
    )
    for text, want in zip(first, expected, strict=True):
        assert want in text


def tell_told(rank: int) -> None:
    """This rank has got its error."""
    distributed_c10d._get_default_store().set(f"told {rank}", "yes")


def wait_until_told(*ranks: int) -> None:
    """Stay alive, without a word, until these ranks have got their errors."""
    distributed_c10d._get_default_store().wait([f"told {rank}" for rank in ranks], timedelta(seconds=30))


def one_is_missing(rank: int, size: int) -> str:
    dist.all_reduce(torch.ones(3))
    if rank == 1:
        wait_until_told(0, 2)
        return "waited"
    text = message(lambda: dist.all_reduce(torch.ones(2, 5)))
    tell_told(rank)
    return text


def test_a_rank_that_never_joins_is_named_after_the_time_out() -> None:
    outcomes = run_ranks(3, one_is_missing, timeout=1)
    for rank in (0, 2):
        text = outcomes[rank].value
        assert "all_reduce(SUM) of float32[2, 5] (#2) in process group 0 timed out after 1 s waiting for rank 1" in text
        assert "rank 1 last called all_reduce(SUM) #1 of float32[3]" in text
        assert "HPUCLUSTER_COLLECTIVE_TIMEOUT" in text
        assert outcomes[rank].seconds > 0.9


def times_out(rank: int, size: int) -> list[str]:
    if rank == 1:
        wait_until_told(0)
        return []
    errors = [message(dist.barrier), message(lambda: dist.all_reduce(torch.ones(1)))]
    work = message(lambda: dist.all_reduce(torch.ones(1), async_op=True))
    tell_told(rank)
    return [*errors, work]


def test_the_environment_sets_the_time_out_and_a_broken_group_stays_broken() -> None:
    first = run_ranks(2, times_out, timeout=60, HPUCLUSTER_COLLECTIVE_TIMEOUT="0.7")[0]
    barrier, after, asynchronous = first.value
    assert "barrier (#1) in process group 0 timed out after 0.7 s waiting for rank 1" in barrier
    assert "has called no collective of this group yet" in barrier
    assert "cannot be used any more" in after and "timed out" in after and "cannot be used any more" in asynchronous


def dies(rank: int, size: int, action: str) -> list[str]:
    dist.barrier()
    if rank == 1:
        time.sleep(0.2)
        if action == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if action == "left":
            store = distributed_c10d._get_default_store()
            dist.destroy_process_group()
            store.wait([f"told {other}" for other in (0, 2, 3)], timedelta(seconds=30))
            return []
        if action == "raised":
            raise ZeroDivisionError("division by zero")
        os._exit(0)
    attempts: dict[int, Callable[[], Any]] = {
        0: lambda: dist.all_reduce(torch.ones(1_000_000)),
        2: lambda: dist.all_reduce(torch.ones(1_000_000), async_op=True).wait(),
        3: lambda: dist.recv(torch.ones(3), 1),
    }
    text = message(attempts[rank])
    tell_told(rank)
    return [text]


@pytest.mark.parametrize(
    ("action", "words"),
    (
        ("killed", "has died"),
        ("exited", "has died"),
        ("left", "rank 1 has left the group: destroy_process_group"),
        ("raised", "rank 1 has left the group: its process is ending"),
    ),
)
def test_a_rank_that_is_gone_is_named_within_seconds(action: str, words: str) -> None:
    outcomes = run_ranks(4, dies, action, timeout=60, may_fail=True)
    for rank in (0, 2, 3):
        text = outcomes[rank].value[0]
        assert words in text and "rank 1" in text, (rank, text)
        assert outcomes[rank].seconds < 10  # on an idle machine, one; the time-out is a minute


def interrupted(rank: int, size: int) -> str:
    dist.barrier()
    if rank == 0:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            dist.all_reduce(torch.ones(3))
        except KeyboardInterrupt:
            tell_told(0)
            wait_until_told(1)
            return "interrupted"
    wait_until_told(0)
    text = message(lambda: dist.all_reduce(torch.ones(3)))
    tell_told(1)
    return text


def test_ctrl_c_in_a_collective_ends_it_and_the_others_learn_why() -> None:
    first, second = run_ranks(2, interrupted)
    assert first.value == "interrupted"
    # Its part was done before the interrupt, so the second rank may finish this one; the group is told either way.
    assert second.value == "no error" or "rank 0 has given up: KeyboardInterrupt" in second.value


def too_much(rank: int, size: int) -> list[str]:
    return [message(lambda: dist.all_reduce(torch.ones(100_000))), message(dist.barrier)]


def test_a_full_dev_shm_is_an_error_with_sizes_and_remedy_on_every_rank() -> None:
    status = os.statvfs("/dev/shm")
    wanted = 3 * status.f_blocks * status.f_frsize // 2**20
    for outcome in run_ranks(3, too_much, HPUCLUSTER_SHM_MB=str(wanted)):
        text, after = outcome.value
        assert "/dev/shm is full" in text and "bytes wanted" in text and "bytes free" in text
        assert "HPUCLUSTER_SHM_MB=" in text and "remount,size=" in text
        assert "cannot be used any more" in after


def bad_environment(rank: int, size: int) -> str:
    return message(lambda: dist.all_reduce(torch.ones(100_000)))


def test_variables_that_are_no_numbers_are_named() -> None:
    texts = [outcome.value for outcome in run_ranks(2, bad_environment, HPUCLUSTER_SHM_MB="much")]
    assert "HPUCLUSTER_SHM_MB='much' is not a number of megabytes" in texts[0]
    assert "HPUCLUSTER_SHM_MB='much'" in texts[1]
    outcome = run_ranks(1, bad_environment, HPUCLUSTER_COLLECTIVE_TIMEOUT="-3", may_fail=True)[0]
    assert "HPUCLUSTER_COLLECTIVE_TIMEOUT='-3'" in outcome.text
    outcome = run_ranks(1, bad_environment, HPUCLUSTER_CARD="gaudi9", may_fail=True)[0]
    assert "unknown card 'gaudi9'" in outcome.text


def larger_than_the_box(rank: int, size: int) -> None:
    """The error comes when the group is made."""


def test_more_ranks_than_the_fabric_has_cards() -> None:
    for outcome in run_ranks(9, larger_than_the_box, may_fail=True, HPUCLUSTER_FABRIC="one-box"):
        assert "9 ranks" in outcome.text and "need 2 boxes" in outcome.text and "one-box has 1" in outcome.text


def forked_use(rank: int, size: int) -> str:
    dist.barrier()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, message(lambda: dist.all_reduce(torch.ones(2))).encode())
        os._exit(0)
    os.waitpid(child, 0)
    dist.barrier()
    return os.read(reading, 4096).decode()


def test_a_forked_child_cannot_speak_for_its_rank() -> None:
    for outcome in run_ranks(2, forked_use):
        assert "belongs to the parent of this forked process" in outcome.value


def large_ones(rank: int, size: int) -> list[str]:
    data, gathered = torch.zeros(3_000_000), torch.zeros(3_000_000)
    dist.all_reduce(data)
    tell_begun()
    while True:
        for attempt in (
            lambda: dist.all_reduce(data),
            lambda: dist.all_gather_into_tensor(gathered, data[: 3_000_000 // size]),
        ):
            text = message(attempt)
            if text != "no error":
                return [text]


def stop_and_go_on(processes: list[Any]) -> None:
    os.kill(processes[1].pid, signal.SIGSTOP)
    time.sleep(2.5)
    os.kill(processes[1].pid, signal.SIGCONT)


def test_a_rank_that_stands_still_in_the_middle_of_a_large_one_is_named() -> None:
    outcomes = run_ranks(4, large_ones, timeout=1, on_begun=stop_and_go_on, may_fail=True)
    # Whoever else is behind only waits for it, and is not named.
    for rank in (0, 2, 3):
        assert "timed out after 1 s waiting for rank 1 (" in outcomes[rank].value[0], outcomes[rank]


def kill_the_second(processes: list[Any]) -> None:
    os.kill(processes[1].pid, signal.SIGKILL)


@pytest.mark.parametrize("attempt", range(2))
def test_a_rank_that_dies_in_the_middle_of_a_large_one_is_named_by_all(attempt: int) -> None:
    outcomes = run_ranks(4, large_ones, timeout=60, on_begun=kill_the_second, may_fail=True)
    for rank in (0, 2, 3):
        assert "rank 1" in outcomes[rank].value[0] and "has died" in outcomes[rank].value[0], outcomes[rank]
