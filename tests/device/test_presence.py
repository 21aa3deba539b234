"""A process that holds a card is on record for every user of the machine, for as long as it lives."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from device import presence as presence_module
from device.card_records import (
    FOLDER_VARIABLE,
    FORMAT,
    NOT_TOLD,
    CardKind,
    CardPorts,
    CardRecord,
    PcieBytes,
    PoolUse,
    held_cards,
    publish,
)
from device.liveness import ProcessId
from device.presence import PATIENCE, Activity, Presence, command_name, tell_ports
from device.spec import load_card

HOLDER = Path(__file__).with_name("card_holder.py")
SPEC = load_card("gaudi2")
IDLE: dict[str, Any] = {
    "memory": {"limit": SPEC.hbm.pool_bytes, "in_use": 4 * 2**20, "peak": 4 * 2**20},
    "pcie": {"received": 4096, "sent": 512},
    "time": {"total": 0.0},
    "utilization": 0.0,
    "steps": 0,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The records' folder of this test; not there yet."""
    path = tmp_path / "cards"
    monkeypatch.setenv(FOLDER_VARIABLE, str(path))
    return path


@pytest.fixture
def here(folder: Path) -> Iterator[Presence]:
    """This process, holding module 3."""
    presence = Presence(SPEC, 3, lambda: IDLE)
    presence.start()
    until(lambda: held_cards()[0].memory.in_use)
    yield presence
    presence.stop()


@pytest.fixture
def hold(folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`hold("gaudi2", 5)` starts a process that holds that card."""
    started: list[subprocess.Popen[str]] = []

    def start(kind: str, module: int, **environ: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(HOLDER), kind, str(module)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environ,
        )
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def until(condition: Callable[[], Any]) -> Any:
    """Wait for a true value of `condition()`."""
    deadline = time.monotonic() + 20
    while not (value := condition()):
        assert time.monotonic() < deadline, "nothing happened within 20 s"
        time.sleep(0.01)
    return value


def a_record(**changes: Any) -> CardRecord:
    """A record of this process."""
    power = SPEC.power
    record = CardRecord(
        process=ProcessId.of_this_process(),
        user="",
        command="python train.py",
        module=0,
        rank=0,
        world_size=1,
        job="",
        started=1e9,
        updated=1e9,
        kind=CardKind.of(SPEC),
        ports=NOT_TOLD,
        memory=PoolUse(1, 1, 1),
        pcie=PcieBytes(0, 0),
        steps=0,
        utilization=0.5,
        power_w=power.idle_w,
        chip_c=power.chip_idle_c,
        board_c=power.board_idle_c,
        energy_j=0.0,
        modelled_s=0.0,
    )
    return replace(record, **changes)


# -- what is on record ----------------------------------------------------------------------------------------------


def test_the_record_follows_what_the_job_tells_of_ports(here: Presence) -> None:
    assert held_cards()[0].ports == NOT_TOLD, "there is no process group"
    told = CardPorts(24, [8, 22, 23], [3, 8])
    tell_ports(told)
    try:
        until(lambda: held_cards()[0].ports == told)
    finally:
        tell_ports(NOT_TOLD)


def test_the_record_tells_process_and_card(here: Presence) -> None:
    (record,) = held_cards()
    assert record.process.pid == os.getpid()
    assert record.module == 3
    assert record.kind == CardKind.of(SPEC)
    assert record.memory == PoolUse(SPEC.hbm.pool_bytes, 4 * 2**20, 4 * 2**20)
    assert record.pcie == PcieBytes(received=4096, sent=512)
    assert record.command.startswith("python")


def test_rank_and_job_come_from_the_launcher_s_variables(hold: Callable[..., Any]) -> None:
    hold("gaudi2", 1, RANK="3", WORLD_SIZE="8", HPUCLUSTER_JOB_ID="77-ab")
    (record,) = held_cards()
    assert (record.rank, record.world_size, record.job) == (3, 8, "77-ab")


def test_two_jobs_may_hold_the_same_module(hold: Callable[..., Any]) -> None:
    pids = sorted(hold("gaudi2", 5).pid for _ in range(2))
    assert [(record.module, record.process.pid) for record in held_cards()] == [(5, pid) for pid in pids]


def test_everyone_may_read_and_nobody_replace(folder: Path) -> None:
    mask = os.umask(0o077)
    try:
        path = publish(a_record())
    finally:
        os.umask(mask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["/usr/bin/python3", "/home/me/train.py", "--token", "secret"], "python3 train.py"),
        (["python", "-u", "-W", "ignore", "train.py"], "python train.py"),
        (["python", "-m", "my.train", "--lr", "1"], "python -m my.train"),
        (["python", "-c", "secret()"], "python -c"),
        (["python"], "python"),
        ([], "python"),
    ],
)
def test_the_command_is_named_without_its_arguments(arguments: list[str], name: str) -> None:
    assert command_name(arguments) == name


# -- its life -------------------------------------------------------------------------------------------------------


def test_the_record_ends_with_the_process(folder: Path, hold: Callable[..., Any]) -> None:
    process = hold("gaudi2", 0)
    assert len(held_cards()) == 1
    process.communicate()
    assert list(folder.iterdir()) == []


def test_a_killed_process_holds_nothing(folder: Path, hold: Callable[..., Any]) -> None:
    process = hold("gaudi2", 0)
    process.kill()
    process.wait(20)
    assert len(list(folder.iterdir())) == 1
    assert held_cards() == []
    assert list(folder.iterdir()) == [], "reading removes what is left"


def test_a_zombie_holds_nothing(hold: Callable[..., Any]) -> None:
    process = hold("gaudi2", 0)
    process.kill()
    until(lambda: held_cards() == [])


def test_stopping_ends_the_record_for_good(here: Presence, folder: Path) -> None:
    here.stop()
    here.stop()
    assert held_cards() == [] and list(folder.iterdir()) == []


def test_a_forked_process_leaves_the_record_alone(here: Presence) -> None:
    child = os.fork()
    if child == 0:
        here.stop()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert [record.process.pid for record in held_cards()] == [os.getpid()]


def test_the_record_is_written_when_something_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence_module, "PERIOD", 0.005)
    for figure in ("HEARTBEAT", "PATIENCE"):  # a slow machine must not look like a change
        monkeypatch.setattr(presence_module, figure, 3600.0)
    report, looks = dict(IDLE), [0]

    def look() -> dict[str, Any]:
        looks[0] += 1
        return report

    presence = Presence(SPEC, 0, look)
    presence.start()
    until(lambda: looks[0] >= 2)
    (path,) = folder.glob("*.json")
    written = path.stat().st_ino, path.stat().st_mtime_ns
    until(lambda: looks[0] >= 6)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == written
    report["memory"] = {"limit": 10, "in_use": 5, "peak": 6}
    until(lambda: held_cards()[0].memory == PoolUse(10, 5, 6))
    presence.stop()


def test_a_folder_that_cannot_be_had_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cards").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cards"))
    presence = Presence(SPEC, 0, lambda: IDLE)
    presence.start()
    presence.stop()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("hpu: hl-smi cannot show this card: ") and str(tmp_path / "cards") in line


# -- of late --------------------------------------------------------------------------------------------------------


def report(total: float, busy: float) -> dict[str, Any]:
    return {**IDLE, "time": {"total": total}, "utilization": busy / total, "engines": {"MME": busy}}


def test_utilization_and_power_are_those_of_the_last_stretch() -> None:
    activity, record = Activity(SPEC), a_record()
    record = activity.apply(record, report(10.0, 0.0), 0.0)
    assert (record.utilization, record.power_w) == (0.0, pytest.approx(90.0))
    record = activity.apply(record, report(12.0, 1.0), 1.0)
    assert record.utilization == pytest.approx(0.5)
    assert record.power_w == pytest.approx(90.0 + 510.0 * 0.55 * 0.5)
    assert record.energy_j == pytest.approx(12.0 * 90.0 + 510.0 * 0.55)


def test_a_card_without_progress_becomes_idle_after_a_while() -> None:
    activity = Activity(SPEC)
    record = activity.apply(a_record(), report(2.0, 1.0), 5.0)
    assert activity.apply(record, report(2.0, 1.0), 5.0 + PATIENCE).utilization == pytest.approx(0.5)
    record = activity.apply(record, report(2.0, 1.0), 5.1 + PATIENCE)
    assert (record.utilization, record.power_w, record.chip_c) == (0.0, 90.0, 29.0)


# -- what others may have put there ---------------------------------------------------------------------------------


def document(record: CardRecord, **changes: Any) -> str:
    return json.dumps({"format": FORMAT, "card": asdict(record) | changes})


def put(folder: Path, text: str, name: str | None = None) -> None:
    folder.mkdir(exist_ok=True)
    (folder / (name or a_record().file_name)).write_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{" * 5000,
        '{"format": 1}',
        '{"format": 1, "card": []}',
        json.dumps({"format": FORMAT + 1, "card": asdict(a_record())}),
        document(a_record(), module="0"),
        document(a_record(), surprise=1),
        document(a_record(), power_w=-1.0),
        document(a_record()).replace('"power_w": 90.0', '"power_w": NaN'),
        document(a_record()).replace('"power_w": 90.0', '"power_w": 1e999'),
        document(a_record()) + " " * 70000,
    ],
)
def test_what_is_no_record_is_passed_over(folder: Path, text: str) -> None:
    put(folder, text)
    assert held_cards() == []


def test_a_record_stands_in_a_file_of_its_process_s_name(folder: Path) -> None:
    put(folder, document(a_record()), "4026531836-1-1.json")
    assert held_cards() == []


@pytest.mark.parametrize("text", ['{"format": 1, "card": {}}', "{"])
def test_what_ended_processes_left_is_removed_also_in_a_format_of_another_version(folder: Path, text: str) -> None:
    process = ProcessId.of_this_process()
    record = a_record(process=replace(process, start=process.start - 1))
    put(folder, text, record.file_name)
    put(folder, text)
    assert held_cards() == []
    assert [file.name for file in folder.iterdir()] == [a_record().file_name], "the living process's own stays"


def test_links_and_pipes_are_not_followed(folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    (tmp_path / "target").write_text(document(a_record()))
    (folder / a_record().file_name).symlink_to(tmp_path / "target")
    os.mkfifo(folder / "pipe.json")
    assert held_cards() == []
    publish(a_record())
    assert (tmp_path / "target").read_text() == document(a_record())
    assert len(held_cards()) == 1


def test_a_later_process_of_the_same_number_is_not_taken_for_the_holder(folder: Path) -> None:
    process = ProcessId.of_this_process()
    record = a_record(process=replace(process, start=process.start - 1))
    put(folder, document(record), record.file_name)
    assert held_cards() == []
    assert not (folder / record.file_name).exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")
def test_a_record_of_another_user_s_process_is_not_believed(folder: Path) -> None:
    path = publish(a_record())
    os.chown(path, 12345, -1)
    assert held_cards() == []


def test_texts_cannot_steer_a_terminal(folder: Path) -> None:
    publish(a_record(command="python \x1b[2Jtrain.py\n"))
    assert held_cards()[0].command == "python ?[2Jtrain.py?"


def test_a_process_of_another_container_is_on_record_while_it_is_kept(folder: Path) -> None:
    record = a_record(process=replace(ProcessId.of_this_process(), namespace=1))
    path = publish(record)
    assert len(held_cards()) == 1
    os.utime(path, (0, 0))
    assert held_cards() == []


def test_files_that_a_killed_writer_left_are_removed(folder: Path) -> None:
    put(folder, "{", ".4026531836-1-1.json.abcd")
    assert held_cards() == [] and len(list(folder.iterdir())) == 1
    os.utime(folder / ".4026531836-1-1.json.abcd", (0, 0))
    assert held_cards() == [] and list(folder.iterdir()) == []
