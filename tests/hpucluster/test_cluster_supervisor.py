"""The supervisor with stand-ins for Ray and the cards' processes: every way in which a rank may end or not come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hpucluster import supervisor as supervisor_module
from hpucluster.exit_status import ASSUMED, shell_status
from hpucluster.job import Job
from hpucluster.outlets import Outlets
from hpucluster.signals import SignalWatch
from hpucluster.snapshots import SnapshotBoard
from hpucluster.supervisor import Supervisor

CARD = """
import os, signal, socket, sys, time
from hpucluster.control import connect

os.setpgid(0, 0)
rank = int(sys.argv[2])
channel = connect(sys.argv[1])
channel.send({"event": "hello", "pid": os.getpid(), "accelerator": rank})
place, descriptors = channel.receive(3)
os.dup2(descriptors[1], 1)
def tell(event, **more): channel.send({"event": event, **more})
def finish(status=0):
    tell("ended", status=status)
    os._exit(status)
"""

WAIT_AND_RUN = "tell('ready'); sys.stdin.readline()\n"


class StandIn:
    """In Ray's place: starts processes that talk to the supervisor as cards do."""

    def __init__(self, codes: list[str], error: str | None = None) -> None:
        self._codes = codes
        self._error = error
        self.processes: list[subprocess.Popen[bytes]] = []

    def create_cards(self, control_path: str) -> list[Any]:
        cards = []
        for rank, code in enumerate(self._codes):
            process = subprocess.Popen(
                [sys.executable, "-c", CARD + code, control_path, str(rank)], stdin=subprocess.PIPE
            )
            # Somebody reaps it at once, as Ray does.
            threading.Thread(target=process.wait, daemon=True).start()
            self.processes.append(process)
            ready = SimpleNamespace(remote=lambda: None)
            run = SimpleNamespace(remote=lambda process=process: self._go(process))
            cards.append(SimpleNamespace(ready=ready, run=run))
        return cards

    def _go(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()

    def failed_cards(self, ready: list[Any]) -> str | None:
        return self._error


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Callable[..., Supervisor]]:
    """Runs a job whose ranks execute the given code, and returns its supervisor after the end."""
    started: list[StandIn] = []

    def run(*codes: str, error: str | None = None, after_start: Callable[[], None] | None = None) -> Supervisor:
        count = len(codes)
        job = Job("train.py", [], list(range(count)), "gaudi2", "/", dict(os.environ), [], identifier="test")
        ray = StandIn(list(codes), error)
        started.append(ray)
        outlets = Outlets(count)
        with SignalWatch() as signals:
            watcher = Supervisor(job, tmp_path, outlets, SnapshotBoard(count), signals)
            try:
                watcher.start(ray)  # type: ignore[arg-type]
                if after_start:
                    after_start()
                watcher.run()
            finally:
                watcher.close()
                outlets.finish()
        return watcher

    yield run
    for ray in started:
        for process in ray.processes:
            process.wait(30)
            assert process.stdin is not None
            process.stdin.close()


def test_all_ranks_end_well(supervise: Any, capfd: pytest.CaptureFixture[str]) -> None:
    watcher = supervise(*[WAIT_AND_RUN + "print('done', flush=True); finish()"] * 2)
    assert (watcher.status, watcher.failure) == (0, None)
    assert sorted(capfd.readouterr().out.splitlines()) == ["[rank 0] done", "[rank 1] done"]


def test_snapshots_reach_the_board(supervise: Any) -> None:
    watcher = supervise(WAIT_AND_RUN + "tell('snapshot', snapshot={'steps': 7}); finish()")
    assert watcher._board.get(0) == {"steps": 7}


def test_first_failure_counts_and_ends_the_others(supervise: Any) -> None:
    first = WAIT_AND_RUN + "tell('failed', status=4, error='ValueError: x'); time.sleep(0.2); finish(4)"
    later = WAIT_AND_RUN + "time.sleep(0.5); tell('failed', status=5, error='lost its peer'); finish(5)"
    watcher = supervise(later, first, WAIT_AND_RUN + "time.sleep(100)")
    assert watcher.status == 4
    assert watcher.failure == "rank 1 (gaudi2, module 1) failed: ValueError: x"
    assert [rank.status for rank in watcher.ranks][1:] == [4, 128 + signal.SIGTERM]


def test_rank_that_ignores_the_end_is_killed(supervise: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "END_GRACE", 0.3)
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN);" + WAIT_AND_RUN + "time.sleep(100)"
    watcher = supervise(stubborn, WAIT_AND_RUN + "time.sleep(0.2); os._exit(9)")
    assert watcher.status == 9
    assert watcher.ranks[0].status == 128 + signal.SIGKILL


def test_a_rank_that_is_killed(supervise: Any) -> None:
    watcher = supervise(WAIT_AND_RUN + "os.kill(os.getpid(), signal.SIGKILL)")
    assert watcher.status == 137
    assert watcher.failure.startswith("rank 0 (gaudi2, module 0) was killed by signal 9 (SIGKILL)")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("finish(0)", 0),
        ("tell('exiting', status=5); os._exit(5)", 5),
        ("os.kill(os.getpid(), signal.SIGSEGV)", shell_status(ASSUMED)),
    ],
)
def test_kernel_that_tells_nothing(supervise: Any, monkeypatch: pytest.MonkeyPatch, code: str, status: int) -> None:
    monkeypatch.setattr(supervisor_module, "kernel_wait_status", lambda pidfd: None)
    assert supervise(WAIT_AND_RUN + code).status == status


def test_kernel_without_pidfds(supervise: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "open_process", lambda pid: -1)
    second = f"while not os.path.exists({str(tmp_path / 'done')!r}): time.sleep(0.1)\n"
    second += "time.sleep(1); os.kill(os.getpid(), signal.SIGKILL)"
    first = f"open({str(tmp_path / 'done')!r}, 'w'); finish()"
    watcher = supervise(WAIT_AND_RUN + first, WAIT_AND_RUN + second)
    assert watcher.status == 137
    assert [rank.status for rank in watcher.ranks] == [0, 137]


def test_card_whose_device_cannot_be_loaded(supervise: Any) -> None:
    watcher = supervise("tell('failed', status=1, error='no compiler'); os._exit(1)", "time.sleep(100)")
    assert watcher.status == 1
    assert watcher.failure == "rank 0 (gaudi2, module 0) failed: no compiler"


def test_card_that_dies_before_it_is_ready(supervise: Any) -> None:
    watcher = supervise("os._exit(0)", "tell('ready'); time.sleep(100)")
    assert watcher.status == 1
    assert watcher.failure.startswith("rank 0 (gaudi2, module 0) ended with exit status 0")


def test_card_that_ray_gives_up(supervise: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = supervise("time.sleep(100)", "time.sleep(100)", error="ImportError: torch")
    assert watcher.status == 1
    assert watcher.failure == "a card could not be started: ImportError: torch"


def test_card_that_never_comes(supervise: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "START_PATIENCE", 1.5)
    watcher = supervise("tell('ready'); time.sleep(100)", "time.sleep(100)")
    assert watcher.status == 1
    assert watcher.failure == "rank 1: no card after 2 s of waiting"


def test_signal_is_passed_on_and_the_second_kills(supervise: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "END_GRACE", 100.0)

    def interrupt_twice() -> None:
        def send() -> None:
            for _ in range(2):
                time.sleep(0.5)
                os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=send, daemon=True).start()

    polite = WAIT_AND_RUN + "time.sleep(100)"
    stubborn = "signal.signal(signal.SIGINT, signal.SIG_IGN);" + WAIT_AND_RUN + "time.sleep(100)"
    begin = time.monotonic()
    watcher = supervise(polite, stubborn, after_start=interrupt_twice)
    assert time.monotonic() - begin < 20
    assert (watcher.status, watcher.failure, watcher.interrupted) == (130, None, signal.SIGINT)
    assert watcher.ranks[1].status == 137
