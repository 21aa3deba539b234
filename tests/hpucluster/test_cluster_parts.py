"""The parts of a job: control channel, exit status, placement, script runner, signals, report, leftovers."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from hpucluster import leftovers, rank_process, script
from hpucluster.control import Channel
from hpucluster.embedded_ray import essence
from hpucluster.exit_status import describe, kernel_wait_status, shell_status
from hpucluster.job import Job
from hpucluster.outcome import Outcome
from hpucluster.placement import available_cores, rank_environment, threads_per_rank
from hpucluster.report import build_report, unused_card, write_json
from hpucluster.signals import SignalWatch
from hpucluster.snapshots import SnapshotBoard, SnapshotThread


def make_job(**changes: object) -> Job:
    plain = {
        "target": "train.py",
        "arguments": ["--lr", "1"],
        "modules": [2, 5],
        "card": "gaudi2",
        "cwd": "/",
        "environ": {"HOME": "/root", "RANK": "9", "LOCAL_RANK": "9", "HABANA_VISIBLE_DEVICES": "2,5"},
        "sys_path": [],
        "master_port": 1234,
        "identifier": "77-abc",
    }
    return Job(**{**plain, **changes})  # type: ignore[arg-type]


# ---- control channel


def test_channel_carries_messages_and_descriptors() -> None:
    ours, theirs = (Channel(end) for end in socket.socketpair())
    reader, writer = os.pipe()
    ours.send({"text": "ä\udcff"}, [writer])
    message, descriptors = theirs.receive(max_descriptors=3)
    assert message == {"text": "ä\udcff"}
    os.write(descriptors[0], b"through")
    assert os.read(reader, 10) == b"through"
    for number in range(3):
        theirs.send({"number": number})
    assert [message["number"] for message in ours.receive_available()] == [0, 1, 2]
    assert ours.receive_available() == [] and not ours.closed
    theirs.close()
    assert ours.receive_available() == [] and ours.closed
    with pytest.raises(EOFError):
        ours.receive()


def test_channel_ignores_a_message_cut_off_by_the_sender_s_death() -> None:
    left, right = socket.socketpair()
    channel = Channel(left)
    right.sendall(b'\0\0\0\x10{"half":')
    right.close()
    assert channel.receive_available() == [] and channel.closed


# ---- exit status


@pytest.mark.parametrize(
    ("wait_status", "status", "words"),
    [
        (3 << 8, 3, "ended with exit status 3"),
        (signal.SIGKILL, 137, "was killed by signal 9 (SIGKILL), as the kernel does where memory runs out"),
        (signal.SIGSEGV, 139, "was killed by signal 11 (SIGSEGV)"),
        (40, 168, "was killed by signal 40 (a real-time signal)"),
    ],
)
def test_exit_status_in_words(wait_status: int, status: int, words: str) -> None:
    assert shell_status(wait_status) == status
    assert describe(wait_status).startswith(words)
    assert "without a word" in describe(None)


def test_the_kernel_tells_the_exit_status_or_that_it_does_not() -> None:
    for code, status in (("import os; os._exit(7)", 7), ("import os; os.abort()", 134)):
        process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
        pidfd = os.pidfd_open(process.pid)
        process.wait()
        wait_status = kernel_wait_status(pidfd, patience=0)
        assert wait_status is None or shell_status(wait_status) == status
        os.close(pidfd)


# ---- placement


def test_environment_of_a_rank() -> None:
    environ = rank_environment(make_job(threads=1), 1)
    assert environ == {
        "HOME": "/root",
        "HABANA_VISIBLE_DEVICES": "2,5",
        "RANK": "1",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "1234",
        "HLS_MODULE_ID": "5",
        "HABANA_VISIBLE_MODULES": "2,5",
        "HPUCLUSTER_CARD": "gaudi2",
        "HPUCLUSTER_NUMERICS": "on",
        "HPUCLUSTER_HOST_TIME": "modelled",
        "OMP_NUM_THREADS": "1",
        "HPUCLUSTER_JOB_ID": "77-abc",
        "HPUCLUSTER_BOX": "0",
    }


def test_each_box_looks_like_a_machine_of_its_own() -> None:
    job = make_job(modules=[*range(8), 8, 9], threads=1)
    environ = rank_environment(job, 9)
    assert {name: environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")} == {
        "RANK": "9",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "10",
        "LOCAL_WORLD_SIZE": "2",
    }
    assert (environ["HLS_MODULE_ID"], environ["HABANA_VISIBLE_MODULES"], environ["HPUCLUSTER_BOX"]) == ("1", "0,1", "1")
    assert job.card_name(9) == "gaudi2, box 1, module 1"


def test_threads_share_the_cores_unless_the_user_chose() -> None:
    assert threads_per_rank({}, 1) == available_cores()
    assert threads_per_rank({}, 10_000) == 1
    assert threads_per_rank({"OMP_NUM_THREADS": "3"}, 8) is None


# ---- script runner


class Pickled:
    """Something of this module."""


def test_script_runs_as_a_real_main_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "job.py"
    path.write_text(
        '"""Doc."""\nimport pickle, sys\nclass C: pass\nif __name__ == "__main__":\n'
        "    copy = type(pickle.loads(pickle.dumps(C()))) is C\n"
        "    argv = list(sys.argv)\n    path = sys.path[0]\n"
    )
    monkeypatch.setattr(sys, "argv", ["pytest"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    former = sys.modules["__main__"]
    with script.fresh_main() as main:
        script.run_script("job.py", ["a", "b"], main)
        assert sys.modules["__main__"] is main
    assert sys.modules["__main__"] is former
    found = vars(main)
    assert found["copy"] and found["argv"] == ["job.py", "a", "b"] and found["path"] == str(tmp_path)
    assert found["__file__"] == str(path) and found["__doc__"] == "Doc."
    assert found["__spec__"] is None and found["__package__"] is None and found["__cached__"] is None
    assert pickle.loads(pickle.dumps(Pickled())).__class__ is Pickled


def test_traceback_begins_in_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "job.py"
    path.write_text("def f():\n    raise ValueError('x')\nf()\n")
    monkeypatch.setattr(sys, "argv", ["pytest"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with script.fresh_main() as main, pytest.raises(ValueError) as caught:
        script.run_script(str(path), [], main)
    trace = script.user_traceback(caught.value)
    assert trace is not None
    assert trace.tb_frame.f_code.co_filename == str(path) and trace.tb_lineno == 3


@pytest.mark.parametrize(
    ("code", "status", "text"),
    [(None, 0, ""), (0, 0, ""), (3, 3, ""), (-1, 255, ""), (256, 0, ""), (True, 1, ""), ("bad", 1, "bad\n")],
)
def test_system_exit(code: object, status: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert rank_process.exit_code(SystemExit(code)) == status
    assert capsys.readouterr().err == text


# ---- signals


def test_signals_are_recorded_while_watched() -> None:
    former = signal.getsignal(signal.SIGTERM)
    with SignalWatch() as watch:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert sorted(watch.take()) == [signal.SIGINT, signal.SIGTERM]
        assert watch.take() == []
    assert signal.getsignal(signal.SIGTERM) is former


# ---- report


def test_report_does_not_depend_on_this_machine(tmp_path: Path) -> None:
    job = make_job()
    board = SnapshotBoard(2)
    outcome = Outcome(status=0, failure=None, interrupted=None, wall_clock={"ray": 1.23456})
    report = build_report(job, board, outcome)
    assert [card["module"] for card in report["cards"]] == [2, 5]
    assert report == build_report(job, board, Outcome(0, None, None, {"ray": 99.0}))
    path = tmp_path / "run.json"
    write_json(str(path), report)
    assert json.loads(path.read_text()) == report
    assert os.listdir(tmp_path) == ["run.json"]


def test_report_counts_steps_per_second_from_the_modelled_step() -> None:
    board = SnapshotBoard(2)
    record = unused_card("gaudi2", 5)
    board.put(1, {**record, "time": {**record["time"], "step": 0.25}})
    cards = build_report(make_job(), board, Outcome(0, None, None))["cards"]
    assert [card["steps_per_second"] for card in cards] == [0.0, 4.0]
    assert [card["used"] for card in cards] == [False, True]


def test_unwritable_report_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        write_json(str(tmp_path / "folder" / "run.json"), {})
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError):
        write_json(str(tmp_path / "taken"), {})
    assert os.listdir(tmp_path) == ["taken"]


# ---- cards that cannot start


def test_of_a_failed_start_the_device_s_own_message_is_told() -> None:
    trace = "Traceback (most recent call last):\n  File ...\ndevice.errors.BuildError: no compiler\ninstall g++"
    assert essence(trace + "\n\nThe above exception was\n\nRuntimeError: x") == "no compiler\ninstall g++"
    assert essence("Traceback\nImportError: torch") == "Traceback\nImportError: torch"


# ---- leftovers


def test_folder_of_a_killed_job_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(leftovers, "_LONGEST_BASE", 1000)
    dead = subprocess.Popen(["true"])
    dead.wait()
    old, alive = tmp_path / f"hpurun-{dead.pid}-abc", tmp_path / f"hpurun-{os.getpid()}-abc"
    old.mkdir()
    alive.mkdir()
    folder = leftovers.create_folder()
    assert not old.exists() and alive.exists() and folder.is_dir()
    assert folder.stat().st_mode & 0o077 == 0
    leftovers.remove_folder(folder)
    assert not folder.exists()


def test_descendants_are_found_and_killed() -> None:
    shell = subprocess.Popen(["sh", "-c", "sleep 100 & echo; wait"], stdout=subprocess.PIPE)
    assert shell.stdout is not None
    shell.stdout.readline()
    assert shell.pid in leftovers.descendants(os.getpid())
    (sleep,) = leftovers.descendants(shell.pid)
    leftovers.kill([shell.pid, sleep])
    assert shell.wait(30) == -signal.SIGKILL
    assert shell.stdout.read() == b""  # nobody holds it any more
    shell.stdout.close()


def test_nothing_is_sent_after_the_report() -> None:
    """A live snapshot that is being made while the script ends must not replace the report."""
    sent: list[dict[str, Any]] = []
    making, ended = threading.Event(), threading.Event()

    class Sink:
        def send(self, message: dict[str, Any]) -> None:
            sent.append(message["snapshot"])

    def figures() -> dict[str, Any]:
        making.set()
        ended.wait(30)
        return {"steps": 1}

    thread = SnapshotThread(figures, lambda: {"steps": 2}, Sink())  # type: ignore[arg-type]
    thread.start()
    assert making.wait(30)
    thread.finish()
    ended.set()
    thread.join(30)
    assert sent == [{"steps": 2}]
