"""`habana_perf_tool`: figures of traces that can be worked out by hand, its verdict, and its answers to bad files."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from launcher.messages import UserError
from launcher.perf_tool import stream
from launcher.perf_tool.command import command
from launcher.perf_tool.intervals import complement, intersection, length, union

from .sample_trace import SampleTrace

ROOT = Path(__file__).resolve().parents[2]
TAG = "pytorch_profiler - DEBUG -"


def printed(path: Path, *options: str) -> list[str]:
    """The lines that the tool prints, without their tag."""
    result = CliRunner().invoke(command, ["--trace", str(path), *options])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert all(line.startswith(TAG) for line in lines)
    return [line.removeprefix(TAG).removeprefix(" ") for line in lines]


def figures(path: Path) -> dict[str, Any]:
    """The figures as JSON."""
    result = CliRunner().invoke(command, ["--trace", str(path), "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.output)
    return found


def refused(path: Path) -> str:
    """The one-line answer to a bad file."""
    result = CliRunner().invoke(command, ["--trace", str(path)])
    assert result.exit_code == 2, result.output
    assert len(result.output.strip().splitlines()) == 1
    assert str(path) in result.output
    return result.output


def steps(host: float, device: float, count: int = 10) -> SampleTrace:
    """A pipeline: the host builds and launches a step while the card runs the one before; times of a step in us."""
    sample = SampleTrace()
    ready = free = 0.0
    for _ in range(count):
        sample.host("graph build", ready, 0.75 * host)
        sample.host("launch", ready + 0.75 * host, 0.25 * host)
        ready += host
        start = max(ready, free)
        sample.kernel("MME", "gemm", start, device, user_node_name="linear", kind="gemm", dataType="bf16")
        free = start + device
    return sample


# -- the verdict ------------------------------------------------------------------------------------------------------


def test_host_bound(tmp_path: Path) -> None:
    # Steps of 100 us, of which the card computes 40; from the first kernel's start to the last one's end: 940 us, in
    # which the host works for 9 steps.
    path = steps(host=100, device=40).write(tmp_path / "trace.json")
    found = figures(path)
    assert found["verdict"] == "host-bound"
    assert found["steady_us"] == 940
    assert math.isclose(found["idle_share"], 9 * 60 / 940)
    assert math.isclose(found["idle_while_host_works_share"], 9 * 60 / 940)
    assert math.isclose(found["host_busy_share"], 900 / 940)
    assert math.isclose(found["device_busy_share"], 400 / 940)
    lines = printed(path)
    assert lines[-1] == (
        "Verdict: host-bound (the HPU idles 57.4 % of 0.940 ms without compilation, 57.4 % while the host works; busy:"
        " host 95.7 %, HPU 42.6 %)"
    )
    assert any("HPU graph" in line for line in lines)


def test_hpu_bound(tmp_path: Path) -> None:
    path = steps(host=40, device=100).write(tmp_path / "trace.json")
    found = figures(path)
    assert (found["verdict"], found["steady_us"], found["idle_share"]) == ("HPU-bound", 1000, 0)
    assert not any("HPU graph" in line for line in printed(path))


def test_graph_replay_ends_what_the_host_costs(tmp_path: Path) -> None:
    sample = SampleTrace()
    for step in range(10):
        sample.host("graph replay", step * 40.0, 20)
        sample.kernel("MME", "gemm", 20 + step * 40.0, 40, kind="gemm")
    found = figures(sample.write(tmp_path / "trace.json"))
    assert (found["verdict"], found["idle_share"]) == ("HPU-bound", 0)


def test_compilation_is_no_steady_time(tmp_path: Path) -> None:
    sample = steps(host=40, device=100)
    sample.host("compile", 2000, 300_000)
    sample.kernel("MME", "gemm", 302_000, 100)
    found = figures(sample.write(tmp_path / "trace.json"))
    # Between the last of the ten steps at 1040 and the compilation at 2000 the card idles, and is said to.
    assert found["steady_us"] == 1000 + (2000 - 1040) + 100
    assert found["host_us"]["compile"] == 300_000
    assert "Compilation takes 300.000 ms" in " ".join(found["recommendations"])


def test_copies_alone_give_no_verdict(tmp_path: Path) -> None:
    sample = SampleTrace()
    sample.kernel("DMA", "MemcpyH2D", 0, 10, direction="h2d")
    path = sample.write(tmp_path / "trace.json")
    assert figures(path)["verdict"] == "none"
    assert printed(path)[-1] == "Verdict: none (the HPU copied, but computed nothing)"


def test_trace_of_the_hardware_alone(tmp_path: Path) -> None:
    sample = SampleTrace()
    sample.kernel("MME", "gemm", 0, 10)
    sample.kernel("MME", "gemm", 90, 10)
    path = sample.write(tmp_path / "trace.json")
    assert figures(path)["verdict"] == "host-bound"
    assert "no events of the host" in printed(path)[-1]


# -- the figures ------------------------------------------------------------------------------------------------------


def test_summaries(tmp_path: Path) -> None:
    sample = SampleTrace()
    sample.host("DataLoader", 0, 30)
    sample.kernel("DMA", "MemcpyH2D", 0, 5, direction="h2d")  # the model's, before the first kernel
    sample.host("graph build", 35, 40)
    sample.host("compile", 75, 25)
    sample.host("launch", 100, 20)
    sample.kernel("MME", "gemm", 120, 60, user_node_name="one", dataType="bf16", bound="compute", where="t.py:3")
    sample.kernel("MME", "gemm", 180, 20, user_node_name="two", dataType="f32")
    sample.kernel("TPC", "relu_fwd", 160, 60, user_node_name="act", kind="elementwise", dataType="bf16")
    sample.host("stage copy", 130, 5)
    sample.kernel("DMA", "MemcpyH2D", 135, 10, direction="h2d")
    sample.kernel("NIC", "allreduce", 200, 50, bytes=1024)
    path = sample.write(tmp_path / "trace.json")
    found = figures(path)
    assert found["host_us"] == {"graph_build": 40, "data_loader": 30, "input": 15, "compile": 25, "launch": 20}
    assert found["engines_us"] == {"MME": 80, "TPC": 60, "DMA": 15, "NIC": 50}
    assert found["mme_lower_precision_ratio"] == 0.75  # 60 of 80
    assert math.isclose(found["mme_tpc_overlap_degree"], 40 / 60)  # 160 to 200, of the TPC's 60
    assert found["steady_us"] == 130
    assert found["idle_share"] == 0
    lines = printed(path)
    for line in (
        "Device/Host ratio: 96.3 % / 3.7 %",  # of 130 and 5
        "  Graph Build: 0.040 ms",
        "  DataLoader: 0.030 ms",
        "  Input Time: 0.015 ms",
        "  Compile Time: 0.025 ms",
        "  MME lower precision ratio: 75.0 %",
        "  MME/TPC overlap degree: 66.7 %",
        "  MME total: 0.080 ms (61.5 %)",
        "  Idle: 0.000 ms (0.0 %)",
        "  1. MME gemm: 0.060 ms (29.3 %), 1 x, one, compute-bound [t.py:3]",
    ):
        assert line in lines
    assert sum(line.startswith("  1. ") for line in printed(path, "--top", "1")) == 2  # a node, a recommendation


def test_missed_fusions(tmp_path: Path) -> None:
    sample = SampleTrace()
    small = {"kind": "elementwise", "recipeName": "r"}
    for start in (0.0, 1000.0):
        for number, kernel in enumerate(("add_fwd", "mul_fwd", "gelu_fwd")):
            sample.kernel(
                "TPC", kernel, start + 10 * number, 9 + number, kind="elementwise", recipeName="r", where="m:1"
            )
        sample.kernel("TPC", "sum_fwd", start + 33, 10, kind="reduction", recipeName="r")
        sample.kernel("TPC", "add_fwd", start + 43, 10, **small)  # alone
        sample.kernel("TPC", "mul_fwd", start + 53, 500, **small)  # large: worth its launch
    path = sample.write(tmp_path / "trace.json")
    assert figures(path)["missed_fusions"] == [
        {"kernels": ["add_fwd", "mul_fwd", "gelu_fwd"], "where": "m:1", "count": 2, "total": 60, "saving": 38}
    ]
    assert "  2 x add_fwd > mul_fwd > gelu_fwd: 0.060 ms, up to 0.038 ms less as one kernel [m:1]" in printed(path)


def test_kernels_without_a_kind_are_known_by_name(tmp_path: Path) -> None:
    sample = SampleTrace()
    sample.kernel("TPC", "add_fwd_bf16", 0, 5)
    sample.kernel("TPC", "relu_fwd_bf16", 5, 5)
    sample.kernel("TPC", "softmax_fwd_bf16", 10, 5)
    found = figures(sample.write(tmp_path / "trace.json"))["missed_fusions"]
    assert [chain["kernels"] for chain in found] == [["add_fwd_bf16", "relu_fwd_bf16"]]


def test_trace_of_torch_profiler(tmp_path: Path) -> None:
    """One process for the card with engines as threads, begin and end events of the bridge, names after the events."""
    events: list[dict[str, Any]] = [
        {"ph": "B", "name": "hpu_lazy", "pid": 20001, "tid": 1, "ts": 0},
        {"ph": "E", "name": "hpu_lazy", "pid": 20001, "tid": 1, "ts": "10.0"},
        {"ph": "X", "name": "aten::mm", "cat": "cpu_op", "pid": 7, "tid": 7, "ts": 0, "dur": 1e6},
        {"ph": "X", "name": "gemm", "cat": "Kernel", "pid": 0, "tid": 1000, "ts": 10, "dur": 30,
         "args": {"User Node Name": "fc", "data_type": "bf16"}},
        {"ph": "X", "name": "copy", "cat": "Memcpy", "pid": 0, "tid": 3000, "ts": 40, "dur": 5, "args": {}},
        {"ph": "X", "name": "add", "cat": "Kernel", "pid": 0, "tid": 2000, "ts": 45, "dur": 5},
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "/device:HPU:0"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 1000, "args": {"name": "MME0"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 2000, "args": {"name": "TPC3"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 3000, "args": {"name": "PDMA1"}},
        {"ph": "i", "name": "[memory]", "pid": 30001, "tid": 1, "ts": 3, "args": {"Bytes": 5}},
    ]  # fmt: skip
    path = tmp_path / "vm.pt.trace.json.gz"
    content = {"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events, "traceName": "x"}
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    found = figures(path)
    assert found["engines_us"] == {"MME": 30, "TPC": 5, "DMA": 5, "NIC": 0}
    assert found["host_us"]["graph_build"] == 10
    assert found["mme_lower_precision_ratio"] == 1
    assert found["top_nodes"][0]["name"] == "fc"


def test_list_of_events_is_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(steps(10, 10).events))
    assert figures(path)["engines_us"]["MME"] == 100


def test_program(tmp_path: Path) -> None:
    path = steps(10, 10).write(tmp_path / "trace.json")
    run = [sys.executable, "-m", "launcher.perf_tool", "--trace"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([*run, str(path)], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].startswith(f"{TAG} Verdict: ")
    bad = subprocess.run([*run, "none.json"], env=environment, capture_output=True, text=True, check=False)
    assert bad.returncode == 2
    assert bad.stderr == "habana_perf_tool: --trace none.json: no such file; give the trace that a profiled run wrote\n"


# -- bad files --------------------------------------------------------------------------------------------------------

HEAD = '{"schemaVersion": 1, "traceEvents": [{"ph": "X"'


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (b"no trace", "is no trace in JSON, from character 0 on"),
        (b"\xff\xfe", "not UTF-8"),
        (b"{}", "it has no list traceEvents"),
        (b'{"traceEvents": 3}', "it has no list traceEvents"),
        (b'{"traceEvents": [3]}', "is no trace in JSON"),
        (b'{"traceEvents": [{"ph" "X"}' + b" " * 99 + b"]}", "is no trace in JSON, from character 23 on"),
        (b'{"traceEvents": [{} {}' + b" " * 99 + b"]}", "is no trace in JSON, from character 20 on"),
        (b'{"traceEvents": []}', "has no events of a device"),
        (b'[{"ph": "X", "name": "a", "cat": "Runtime", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]', "has no events of a"),
        (HEAD.encode(), "is cut off"),
        (HEAD.encode() + b"}", "is cut off"),
        (HEAD.encode() + b"},", "is cut off"),
        (HEAD.encode() + b', "name": "a long name that does not end', "is cut off"),
        (gzip.compress(HEAD.encode() + b"}" + os.urandom(4000).hex().encode())[:-2000], "is cut off"),
        (b"\x1f\x8b" + b"x" * 50, "is damaged"),
        (b"[" * 100_000, "is no trace in JSON"),
        (b'[{"ts": ' + b"1" * 5000 + b"}]", "is no trace in JSON"),
        (b'[{"ph": "X", "name": "a", "cat": "Kernel", "ts": 1, "dur": 0, "pid": [], "tid": {}}]', "has no events of a"),
        (
            b'[{"ph": "X", "cat": "Kernel", "ts": 1, "dur": 0, "tid": 1, "args": {"engine": "MME"}}]',
            "has no events of a",
        ),
    ],
)
def test_bad_file(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    assert text in refused(path)


def test_file_that_cannot_be_opened(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "none.json")
    assert "is a directory" in refused(tmp_path)


@pytest.mark.parametrize("moment", ["NaN", "-Infinity", "1e999", "9" * 400, '"inf"', '"x"', "true", "null", "[1]"])
def test_moments_that_are_none_are_passed_over(tmp_path: Path, moment: str) -> None:
    sample = steps(host=20, device=100)
    expected = figures(sample.write(tmp_path / "trace.json"))
    strange = json.dumps(sample.events[-1] | {"ts": "?"}).replace('"?"', moment)
    path = tmp_path / "strange.json"
    path.write_text(f"{json.dumps(sample.events)[:-1]}, {strange}]")
    assert figures(path) == expected


def test_nothing_takes_less_than_no_time(tmp_path: Path) -> None:
    sample = steps(host=20, device=100)
    sample.kernel("MME", "gemm", 0.0, -500.0)
    assert all(node["total"] >= 0 for node in figures(sample.write(tmp_path / "trace.json"))["top_nodes"])


def test_eager_operators_that_run_ahead_of_their_compilation(tmp_path: Path) -> None:
    """The host is through with its 40 operators, 25 us each, before the launch thread has compiled the first one."""
    sample = SampleTrace()
    sample.kernel("TPC", "relu_fwd_f32", 0.0, 5.0)
    sample.host("compile", 10, 50_000)
    for number in range(40):
        sample.host("eager operator", 20 + 25.0 * number, 25)
        sample.host("launch", 20 + 25.0 * number, 25)  # the bridge's function within it
        sample.kernel("TPC", "relu_fwd_f32", 50_010 + 15.0 * number, 5.0)
    path = sample.write(tmp_path / "trace.json")
    found = figures(path)
    assert (found["host_us"]["launch"], found["host_work_us"], found["host_busy_share"]) == (1000, 1000, 0)
    assert found["verdict"] == "host-bound"
    assert "1.000 ms more of the host's work lies where graphs are compiled" in printed(path)[-1]
    assert "lazy mode" in found["recommendations"][0]


def test_shares_are_of_the_steady_time(tmp_path: Path) -> None:
    sample = SampleTrace()
    sample.kernel("DMA", "MemcpyH2D", 0.0, 1000.0)  # the model
    sample.kernel("MME", "gemm", 2000.0, 60.0)
    sample.kernel("DMA", "MemcpyH2D", 2010.0, 25.0)
    sample.kernel("MME", "gemm", 2060.0, 40.0)
    path = sample.write(tmp_path / "trace.json")
    assert "  DMA total: 1.025 ms (25.0 %; 1.000 ms of it outside the steady time)" in printed(path)
    assert figures(path)["engine_shares"] == {"MME": 1.0, "TPC": 0.0, "DMA": 0.25, "NIC": 0.0}


def test_a_pipe_is_read_and_a_full_disk_is_told(tmp_path: Path) -> None:
    sample = steps(host=20, device=100)
    sample.kernel("MME", "\ud800", 0.0, 1.0)  # half a character, which no text file can hold
    trace = sample.write(tmp_path / "trace.json").read_bytes()
    tool = [sys.executable, "-m", "launcher.perf_tool", "--trace", "/dev/stdin"]
    for content in (trace, gzip.compress(trace)):
        run = subprocess.run(tool, cwd=ROOT, input=content, capture_output=True)
        assert run.returncode == 0 and b"MME \\ud800: 0.001 ms" in run.stdout
    with open("/dev/full", "w") as full:
        run = subprocess.run(tool, cwd=ROOT, input=trace, stdout=full, stderr=subprocess.PIPE)
    assert run.returncode == 2
    assert run.stderr.decode().splitlines() == [
        "habana_perf_tool: standard output cannot be written: No space left on device; make room, or write to another"
        " place"
    ]


@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=9),
            st.one_of(st.integers(), st.floats(allow_nan=False), st.text(), st.booleans(), st.lists(st.text())),
            max_size=4,
        ),
        max_size=8,
    ),
    st.integers(1, 40),
    st.sampled_from(["{0}", '{{"a": [1, 2], "n": 12, "traceEvents": {0}, "z": 1.5}}', ' {{"traceEvents" : {0}\n}}\n']),
    st.booleans(),
)
def test_reader_gives_what_the_whole_text_does(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]], window: int, shape: str, ascii_only: bool
) -> None:
    path = tmp_path_factory.mktemp("reader") / "trace.json"
    path.write_text(shape.format(json.dumps(events, ensure_ascii=ascii_only)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "WINDOW", window)
        assert list(stream.events(path)) == events


@given(st.integers(0, 200), st.integers(1, 40))
def test_every_cut_is_noticed(tmp_path_factory: pytest.TempPathFactory, cut: int, window: int) -> None:
    text = json.dumps({"traceEvents": steps(10, 10, count=2).events, "n": 123})
    path = tmp_path_factory.mktemp("cut") / "trace.json"
    path.write_text(text[: cut * len(text) // 201])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "WINDOW", window)
        with pytest.raises(UserError, match="is cut off" if cut else "is empty"):
            list(stream.events(path))


# -- intervals --------------------------------------------------------------------------------------------------------

moments = st.integers(0, 30)
spans = st.lists(st.tuples(moments, moments).map(sorted), max_size=8)


def cells(rows: Any) -> set[int]:
    """Intervals with whole ends as the unit cells that they cover."""
    return {cell for begin, end in rows for cell in range(int(begin), int(end))}


@given(spans, spans)
def test_intervals_are_sets_of_moments(one: list[Any], other: list[Any]) -> None:
    a, b = (union([np_rows(rows)]) for rows in (one, other))
    assert cells(a) == cells(one)
    assert cells(union([a, b])) == cells(one) | cells(other)
    assert cells(intersection(a, b)) == cells(one) & cells(other)
    assert cells(complement(a, 5, 25)) == set(range(5, 25)) - cells(one)
    assert length(a) == len(cells(one))
    assert all(end < begin for (_, end), (begin, _) in itertools.pairwise(a))


def np_rows(rows: list[Any]) -> Any:
    return np.array(rows, dtype=float).reshape(-1, 2)
