"""Which part of a run a session traces, where the files lie, and what happens where they cannot be written."""

from __future__ import annotations

import os
import resource
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from device.profiler.configuration import ProfilerConfig
from device.profiler.naming import hardware_name, merged_name, session_name
from device.profiler.session import Session

from .profiler_card import FakeCard, events, named


def config(folder: Path, **settings) -> ProfilerConfig:
    return ProfilerConfig(**({"output_dir": str(folder), "add_pid": False} | settings))


def gemms(path: Path) -> list[float]:
    return [event["ts"] for event in named(events(path), "gemm_bf16")]


class TestPhases:
    def test_a_whole_run(self, tmp_path: Path) -> None:
        session = Session(config(tmp_path, phase="device-acq"), card := FakeCard())
        card.step(5)
        assert os.listdir(tmp_path) == [f".default_profiling.json.{os.getpid()}.part"]
        session.finish()
        assert os.listdir(tmp_path) == ["default_profiling.json"]
        assert len(gemms(tmp_path / "default_profiling.json")) == 5
        assert card.timeline.observer is None

    def test_launches_without_a_range(self, tmp_path: Path) -> None:
        session = Session(config(tmp_path, phase="multi-enq", invocations=None), card := FakeCard())
        card.step(3)
        session.finish()
        assert len(gemms(tmp_path / "default_profiling.json")) == 3

    def test_a_range_of_launches(self, tmp_path: Path) -> None:
        Session(config(tmp_path, phase="multi-enq", invocations=(2, 4)), card := FakeCard())
        path = tmp_path / "default_profiling.json"
        card.step(2)
        begin = card.timeline.host
        card.step(2)
        assert not path.exists()
        card.step(1)
        assert path.exists() and card.timeline.observer is None  # complete as soon as the range is over
        card.step(2)
        found = events(path)
        assert len(named(found, "gemm_bf16")) == len(named(found, "launch")) == 3
        assert named(found, "graph build")[0]["ts"] == round(begin * 1e6, 3)

    def test_a_range_beyond_the_run_leaves_no_file(self, tmp_path: Path) -> None:
        session = Session(config(tmp_path, phase="multi-enq", invocations=(7, 8)), card := FakeCard())
        card.step(3)
        session.finish()
        assert os.listdir(tmp_path) == []

    def test_single_launches_have_files_of_their_own(self, tmp_path: Path) -> None:
        session = Session(config(tmp_path, phase="enq", invocations=(1, 2)), card := FakeCard())
        card.step(5)
        session.finish()
        assert sorted(os.listdir(tmp_path)) == ["default_profiling_hl3_1.json", "default_profiling_hl3_2.json"]
        assert len(gemms(tmp_path / "default_profiling_hl3_2.json")) == 1

    def test_the_hardware_alone(self, tmp_path: Path) -> None:
        Session(config(tmp_path, phase="multi-enq", invocations=(0, 1), host=False), card := FakeCard())
        card.step(3)
        assert os.listdir(tmp_path) == ["default_profiling_hl3_0-1.json"]

    def test_chosen_iterations_stand_in_one_file(self, tmp_path: Path) -> None:
        """Iterations 2, 6 and 12, as the profiler's introduction shows."""
        session = Session(config(tmp_path, phase="profileApi", session="dlrm-profile"), card := FakeCard())
        path, moments = tmp_path / "dlrm-profile.json", []
        for iteration in range(15):
            if iteration in (2, 6, 12):
                session.start()
                moments.append(card.timeline.host)
            card.step()
            if iteration in (2, 6, 12):
                session.stop()
                assert len(gemms(path)) == len(moments)  # complete after each
                assert card.timeline.observer is None
        session.finish()
        assert os.listdir(tmp_path) == ["dlrm-profile.json"]
        found = events(path)
        assert [event["ts"] for event in named(found, "graph build")] == [round(moment * 1e6, 3) for moment in moments]
        assert len(named(found, "wait")) == 0  # iterations that were left out are no waits

    def test_calls_may_come_twice_or_not_at_all(self, tmp_path: Path) -> None:
        session = Session(config(tmp_path, phase="profileApi"), card := FakeCard())
        session.stop()
        session.start()
        session.start()
        card.step()
        session.stop()
        session.stop()
        session.finish()
        session.start()
        assert len(gemms(tmp_path / "default_profiling.json")) == 1

    @pytest.mark.parametrize("phase", ["device-acq", "profileApi"])
    def test_the_script_may_change_its_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        session = Session(config(Path("."), phase=phase), card := FakeCard())
        (tmp_path / "elsewhere").mkdir()
        for folder in (".", "elsewhere"):
            os.chdir(folder)
            session.start()
            card.step()
            session.stop()
        session.finish()
        assert len(gemms(tmp_path / "default_profiling.json")) == 2
        assert os.listdir(tmp_path / "elsewhere") == []

    def test_a_file_that_was_taken_away_between_two_ranges_is_begun_anew(self, tmp_path: Path) -> None:
        session = Session(config(tmp_path, phase="profileApi"), card := FakeCard())
        for _ in range(2):
            session.start()
            card.step()
            session.stop()
            (tmp_path / "default_profiling.json").rename(tmp_path / "mine.json")
        session.finish()
        assert os.listdir(tmp_path) == ["mine.json"] and len(gemms(tmp_path / "mine.json")) == 1


class TestNames:
    MOMENT = time.strptime("2026-01-31 09:05:00", "%Y-%m-%d %H:%M:%S")

    @pytest.mark.parametrize(
        ("session", "name"),
        [
            ("run", "run"),
            ("run#", "run_20260131_09-05-00"),
            ("run_#", "run_20260131_09-05-00"),
            ("#", "20260131_09-05-00"),
        ],
    )
    def test_a_time_in_the_session_s_name(self, session: str, name: str) -> None:
        assert session_name(session, self.MOMENT) == name

    def test_the_process_s_number(self) -> None:
        assert merged_name(ProfilerConfig(), "run", "json", {}) == f"run_{os.getpid()}.json"
        without = ProfilerConfig(add_pid=False)
        assert merged_name(without, "run", "json", {}) == "run.json"
        assert merged_name(without, "run", "hltv", {}) == f"run_{os.getpid()}.hltv"

    def test_ranks_never_share_a_file(self) -> None:
        environ = {"WORLD_SIZE": "8", "RANK": "5"}
        assert merged_name(ProfilerConfig(add_pid=False), "run", "json", environ) == "run_rank5.json"

    @pytest.mark.parametrize(
        ("invocations", "name"),
        [((15, 19), "run_hl2_15-19.json"), ((7, 7), "run_hl2_7.json"), (None, "run_hl2.json")],
    )
    def test_launches(self, invocations: tuple[int, int] | None, name: str) -> None:
        assert hardware_name(ProfilerConfig(), "run", 2, invocations, "json") == name

    def test_the_pci_address(self) -> None:
        assert hardware_name(ProfilerConfig(add_pci=True), "run", 2, (7, 7), "csv") == "run_hl2_7_0000-02-00.0.csv"


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Files of this process cannot grow beyond 2 MB."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * 2**20, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


class TestFailures:
    """Training goes on, the user is told once, nothing incomplete is left."""

    def test_a_full_disk(self, tmp_path: Path, small_disk: None, capsys: pytest.CaptureFixture[str]) -> None:
        session = Session(config(tmp_path, phase="device-acq", formats=("json", "csv")), card := FakeCard())
        card.step(3000)
        assert card.timeline.observer is None
        session.finish()
        assert os.listdir(tmp_path) == []
        told = capsys.readouterr().err
        assert (
            told.count("\n") == 1 and "default_profiling.json: File too large; the run goes on without a trace" in told
        )

    def test_a_folder_that_vanishes(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = tmp_path / "traces"
        session = Session(config(folder, phase="device-acq"), card := FakeCard())
        card.step()
        shutil.rmtree(folder)
        card.step()
        session.finish()
        assert not folder.exists()
        told = capsys.readouterr().err
        assert told.count("\n") == 1 and "No such file or directory" in told and "hl-prof-config -o" in told

    def test_the_working_directory_is_gone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        session = Session(config(Path("."), phase="device-acq"), card := FakeCard())
        card.step()
        session.finish()
        assert "profiler: cannot write default_profiling" in capsys.readouterr().err

    def test_a_folder_that_is_none(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "traces").write_text("a file")
        session = Session(config(tmp_path / "traces", phase="profileApi"), card := FakeCard())
        session.start()
        card.step()
        session.stop()
        session.finish()
        assert capsys.readouterr().err.count("cannot write") == 1

    def test_one_of_several_files_that_cannot_be_opened(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        name = "x" * 230  # with the longer name of the nodes' table, more than a file's name may have
        session = Session(config(tmp_path, phase="device-acq", session=name, formats=("csv",)), card := FakeCard())
        card.step()
        session.finish()
        assert "File name too long" in capsys.readouterr().err
        assert os.listdir(tmp_path) == []

    def test_what_was_complete_is_kept(
        self, tmp_path: Path, small_disk: None, capsys: pytest.CaptureFixture[str]
    ) -> None:
        session = Session(config(tmp_path, phase="profileApi"), card := FakeCard())
        session.start()
        card.step()
        session.stop()
        session.start()
        card.step(3000)
        session.finish()
        assert capsys.readouterr().err.count("cannot write") == 1
        assert os.listdir(tmp_path) == ["default_profiling.json"]
        assert len(gemms(tmp_path / "default_profiling.json")) == 1
