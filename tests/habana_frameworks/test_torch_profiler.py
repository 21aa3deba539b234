"""`torch.profiler` with ProfilerActivity.HPU: PyTorch's own machinery, with the card's kernels in its results."""

from __future__ import annotations

import copy
import gzip
import inspect
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import habana_frameworks.torch.core as htcore
from device.card import current_card
from device.profiler.torch_profile import profile
from habana_frameworks.torch.activity_profiler import DebugActivity
from habana_frameworks.torch.utils import profiler as parts

CPU, HPU = torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.HPU


@pytest.fixture
def step() -> Callable[[], float]:
    """One product and one sum on the card, of which the result is read. Its recipe is compiled already."""
    x = torch.ones(64, 64).to("hpu")

    def run() -> float:
        total = (x @ x).sum()
        htcore.mark_step()
        return total.item()

    run()
    return run


def export(profiled: Any, path: Path) -> dict[str, Any]:
    profiled.export_chrome_trace(str(path))
    return loaded(path)


def loaded(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)


def kernels(trace: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event.get("cat") == "Kernel"]


class TestTraces:
    def test_the_card_s_kernels_stand_beside_the_host_s_operators(self, step, tmp_path: Path) -> None:
        with torch.profiler.profile(activities=[CPU, HPU]) as profiled:
            step()
        trace = export(profiled, tmp_path / "trace.json")
        names = {event["args"]["user node name"].rpartition("_")[0] for event in kernels(trace)}
        assert {"mm", "sum"} <= names
        assert "aten::mm" in {event["name"] for event in trace["traceEvents"]}
        processes = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
        assert processes[0] == "/device:HPU:0"
        assert {"Synapse Logger", "Bridge Logs", "Memory Logs"} <= set(processes.values())
        threads = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name" and e["pid"] == 0}
        assert {"MME0", "TPC0"} <= threads
        called = {event["name"] for event in trace["traceEvents"]}
        assert {"SyncTensorsGraphInternal", "LaunchSyncTensorsGraph", "hpu_lazy", "synMemCopyAsync"} <= called

    def test_it_says_which_clock_is_which(self, step, tmp_path: Path) -> None:
        with torch.profiler.profile() as profiled:
            step()
        trace = export(profiled, tmp_path / "trace.json")
        assert trace["hpu_time"] == "modelled" and "measured time of this machine" in trace["hpu_time_base"]
        assert [device["name"] for device in trace["deviceProperties"]] == [torch.hpu.get_device_name()]
        (span,) = [event for event in trace["traceEvents"] if event["name"] == "PyTorch Profiler (0)"]
        first = min(event["ts"] for event in kernels(trace))
        assert 0 < first - span["ts"] < 60e6  # both begin with the profile, on one axis

    def test_modelled_durations_do_not_depend_on_the_machine(self, step, tmp_path: Path) -> None:
        durations = []
        for number in range(2):
            with torch.profiler.profile(activities=[HPU]) as profiled:
                step()
            found = kernels(export(profiled, tmp_path / f"{number}.json"))
            durations.append([(event["name"], event["args"]["bytes"], event["args"]["bound"]) for event in found])
        assert durations[0] == durations[1] and len(durations[0]) >= 2

    def test_a_schedule(self, step, tmp_path: Path) -> None:
        calls: list[int] = []
        write = torch.profiler.tensorboard_trace_handler(str(tmp_path))
        with torch.profiler.profile(
            activities=[CPU, HPU],
            schedule=torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2),
            on_trace_ready=lambda profiled: (calls.append(profiled.step_num), write(profiled)),
            record_shapes=True,
        ) as profiled:
            for _ in range(9):
                step()
                profiled.step()
        assert calls == [4, 8]
        files = sorted(tmp_path.glob("*.pt.trace.json"))
        assert len(files) == 2
        for path, steps in zip(files, ({2, 3}, {6, 7}), strict=True):
            trace = json.loads(path.read_text())
            found = {event["name"] for event in trace["traceEvents"] if event["name"].startswith("ProfilerStep#")}
            assert found == {f"ProfilerStep#{number}" for number in steps}
            assert len([event for event in kernels(trace) if event["name"].startswith(("mm", "gemm"))]) == 2

    def test_compressed(self, step, tmp_path: Path) -> None:
        handler = torch.profiler.tensorboard_trace_handler(str(tmp_path), use_gzip=True)
        with torch.profiler.profile(on_trace_ready=handler):
            step()
        (path,) = tmp_path.glob("*.pt.trace.json.gz")
        assert kernels(loaded(path))

    @pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
    def test_pytorch_s_other_writer(self, step, tmp_path: Path, name: str) -> None:
        with torch.profiler.profile() as profiled:
            step()
        path = tmp_path / name
        profiled.export_chrome_trace(str(path), use_python_export=True)
        assert kernels(loaded(path))

    def test_the_card_alone(self, step, tmp_path: Path) -> None:
        with torch.profiler.profile(activities=[HPU]) as profiled:
            step()
        trace = export(profiled, tmp_path / "trace.json")
        assert kernels(trace) and not [event for event in trace["traceEvents"] if event.get("cat") == "cpu_op"]
        assert all(event.key and event.self_cpu_time_total == 0 for event in profiled.key_averages())

    def test_arrows_can_be_left_out(self, step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        found = []
        for value in ("1", "0"):
            monkeypatch.setenv("PT_TB_ENABLE_FLOW_EVENTS", value)
            with torch.profiler.profile() as profiled:
                step()
            trace = export(profiled, tmp_path / f"{value}.json")
            found.append(any(event.get("cat") == "enqueue" for event in trace["traceEvents"]))
        assert found == [True, False]

    def test_a_folder_that_vanishes(self, step, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "traces").mkdir()
        with torch.profiler.profile() as profiled:
            step()
        shutil.rmtree(tmp_path / "traces")
        profiled.export_chrome_trace(str(tmp_path / "traces" / "trace.json"))
        assert "the card's events are missing in" in capfd.readouterr().err
        assert step() == 64.0**3


class TestFailures:
    def test_a_graph_that_fails_at_the_end_fails_after_the_profile_is_written(self, step, tmp_path: Path) -> None:
        path = tmp_path / "trace.json"
        with (
            pytest.raises(torch.OutOfMemoryError),
            torch.profiler.profile(activities=[CPU, HPU], on_trace_ready=lambda p: p.export_chrome_trace(str(path))),
        ):
            step()
            torch.ones(1 << 38, device="hpu")  # recorded here, run at the end
        assert len(kernels(loaded(path))) == 2
        with torch.profiler.profile(activities=[HPU]) as after:
            step()
        assert len(kernels(export(after, tmp_path / "after.json"))) == 2

    def test_a_range_ends_with_a_graph_that_fails(self, step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        parts._start_profiler()
        step()
        torch.ones(1 << 38, device="hpu")
        with pytest.raises(torch.OutOfMemoryError):
            parts._stop_profiler()
        step()
        (path,) = tmp_path.glob("default_profiling_*")
        assert len(kernels(loaded(path))) == 2
        path.unlink()  # the next range begins another file

    def test_a_profile_that_is_started_twice_leaves_nothing_behind(self, step) -> None:
        profiled = torch.profiler.profile(activities=[HPU])
        before = current_card().timeline.observer
        profiled.start()
        profiled.start()
        step()
        profiled.stop()
        assert current_card().timeline.observer is before


class TestTables:
    def test_kernels_have_rows_with_the_card_s_time(self, step) -> None:
        with torch.profiler.profile(activities=[CPU, HPU]) as profiled:
            for _ in range(3):
                step()
        rows = {row.key: row for row in profiled.key_averages()}
        copies = rows["MemcpyD2H"]
        assert copies.count == 3 and copies.device_time_total > 0 and copies.self_cpu_time_total == 0
        table = profiled.key_averages().table(sort_by="self_device_time_total", row_limit=20)
        assert "Self HPU" in table and "MemcpyD2H" in table and "Self HPU time total" in table

    @pytest.mark.parametrize("sort_by", ["cpu_time_total", "self_hpu_time_total", "count", None])
    def test_any_order(self, step, sort_by: str | None) -> None:
        with torch.profiler.profile(
            activities=[CPU, HPU], record_shapes=True, with_stack=True, profile_memory=True
        ) as p:
            step()
        assert "aten::mm" in p.key_averages(group_by_input_shape=True).table(sort_by=sort_by, row_limit=-1)

    def test_the_user_s_line_behind_a_kernel(self, step) -> None:
        with torch.profiler.profile(activities=[CPU, HPU], with_stack=True) as profiled:
            step()
        stacks = {
            event.name: event.stack
            for event in profiled.events()
            if event.device_type != torch._C._autograd.DeviceType.CPU
        }
        assert any(stack and stack[0].startswith("test_torch_profiler.py:") for stack in stacks.values())

    def test_cycles_add_up_where_that_is_asked_for(self, step) -> None:
        with torch.profiler.profile(
            activities=[CPU, HPU], schedule=torch.profiler.schedule(wait=0, warmup=1, active=1), acc_events=True
        ) as profiled:
            for _ in range(4):
                step()
                profiled.step()
        (copies,) = [row for row in profiled.key_averages() if row.key == "MemcpyD2H"]
        assert copies.count == 2


class TestPyTorchStaysAsItIs:
    def test_the_names(self) -> None:
        assert torch.profiler.profile is profile is torch.profiler.profiler.profile
        assert profile.__mro__[1].__module__ == "torch.profiler.profiler"
        assert pickle.loads(pickle.dumps(CPU)) == copy.deepcopy(CPU) == CPU
        assert pickle.loads(pickle.dumps(profile)) is profile

    def test_activities_are_the_bridge_s_and_equal_pytorch_s(self) -> None:
        ours, torchs = torch.profiler.ProfilerActivity, torch._C._profiler.ProfilerActivity
        assert set(ours.__members__) == set(torchs.__members__) and not isinstance(ours.HPU, torchs)
        assert ours.HPU is ours.PrivateUse1
        assert ours.HPU == torchs.HPU and hash(ours.HPU) == hash(torchs.HPU) and ours.HPU != torchs.CPU
        assert ours.CPU in torch.profiler.supported_activities()
        for chosen in ([ours.CPU, torchs.HPU], [{ours.HPU: []}]):
            assert torch.profiler.profile(activities=chosen)._with_card

    def test_the_signature_is_pytorch_s_with_one_more(self) -> None:
        stock, ours = (inspect.signature(kind.__init__).parameters for kind in (profile.__mro__[1], profile))
        assert [*stock, "debug_activities"] == list(ours)

    def test_a_profile_of_the_host_alone(self, step, tmp_path: Path) -> None:
        with torch.profiler.profile(activities=[CPU]) as profiled:
            torch.ones(8) + 1
            step()
        assert type(profiled.profiler) is torch.autograd.profiler.profile
        assert "HPU" not in profiled.key_averages().table()
        trace = export(profiled, tmp_path / "trace.json")
        assert not kernels(trace) and "hpu_time" not in trace

    def test_autograd_s_profiler_is_untouched(self) -> None:
        with torch.autograd.profiler.profile() as profiled:
            torch.ones(8) + 1
        assert "aten::add" in {event.key for event in profiled.key_averages()}

    def test_bad_arguments(self) -> None:
        with pytest.raises(TypeError, match="Expected ProfilerActivity or dict"):
            torch.profiler.profile(activities=[CPU, "hpu"])
        with pytest.raises(TypeError, match="members of DebugActivity, got 'all'"):
            torch.profiler.profile(debug_activities=["all"])
        torch.profiler.profile(debug_activities=[DebugActivity.SYNAPSE_FUNCTION_CALLS])


def test_habana_profile_0_refuses(step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_PROFILE", "0")
    with pytest.warns(UserWarning, match="HABANA_PROFILE=0.*unset HABANA_PROFILE"):
        profiled = torch.profiler.profile(activities=[CPU, HPU])
    with profiled:
        step()
    assert not kernels(export(profiled, tmp_path / "trace.json"))


def test_a_session_and_a_profile_at_once(step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parts._setup_profiler()
    parts._start_profiler()
    with torch.profiler.profile(activities=[HPU]) as profiled:
        step()
    step()
    parts._stop_profiler()
    (path,) = tmp_path.glob("default_profiling_*")
    session = [event["name"] for event in kernels(json.loads(path.read_text()))]
    path.unlink()
    torchs = [event["name"] for event in kernels(export(profiled, tmp_path / "trace.json"))]
    assert session == torchs * 2
