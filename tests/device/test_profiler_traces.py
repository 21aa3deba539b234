"""What a timeline's work looks like in a trace, to the nanosecond."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path

import pytest

from device.compiler.program import Engine
from device.network import Transfer
from device.profiler.configuration import ProfilerConfig
from device.profiler.csv_trace import NODE_COLUMNS, RAW_COLUMNS
from device.profiler.events import microseconds, nanoseconds
from device.profiler.layout import SessionLayout, TorchLayout
from device.profiler.observers import Observers, attach, detach
from device.profiler.session import Session
from device.spec import load_card

from .profiler_card import GAUDI2, STEP, FakeCard, events, named, node, recipe

HOST = GAUDI2.host


def traced(folder: Path, card: FakeCard, work, **settings) -> list[dict]:
    """The events of `work(card)` under a session of that configuration."""
    config = ProfilerConfig(**({"phase": "device-acq", "output_dir": str(folder), "add_pid": False} | settings))
    session = Session(config, card)
    work(card)
    session.finish()
    return events(folder / "default_profiling.json")


def test_a_recipe_s_nodes_stand_on_their_engines(tmp_path: Path) -> None:
    found = traced(tmp_path, FakeCard(), lambda card: card.step())
    launched = 10 * HOST.record_s + HOST.launch_s
    spans = {
        event["name"]: (event["pid"], event["tid"], event["ts"], event["dur"]) for event in found if "dur" in event
    }
    start = round(launched * 1e6, 3)
    assert spans["gemm_bf16"] == (2, 1000, start, 20.0)
    assert spans["relu_bf16"] == (3, 2000, start + 10, 15.0)
    assert spans["copy_bf16"] == (1, 4000, start + 25, 5.0)
    assert spans["MemcpyD2H"][:3] == (1, 3001, start + 30)


def test_a_kernel_says_what_it_is(tmp_path: Path) -> None:
    (relu,) = named(traced(tmp_path, FakeCard(), lambda card: card.step()), "relu_bf16")
    assert relu["cat"] == "Kernel"
    assert relu["args"] == {
        "user node name": "relu_1",
        "kernel": "relu_bf16",
        "kind": "elementwise",
        "engine": "TPC",
        "dataType": "bf16",
        "recipeName": "graph_0",
        "recipeId": 0,
        "bound": "memory",
        "bytes": 768,
        "flops": 1000.0,
        "where": "train.py:7",
        "streamHandle": "0x0",
        "device": 0,
        "fused operators": 2,
    }


def test_processes_and_threads_have_names_and_order(tmp_path: Path) -> None:
    found = traced(tmp_path, FakeCard(), lambda card: card.step())
    processes = {event["pid"]: event["args"]["name"] for event in named(found, "process_name", "M")}
    assert processes == {1: "DMA", 2: "MME", 3: "TPC", 4: "NIC", 5: "host"}
    threads = {event["tid"]: event["args"]["name"] for event in named(found, "thread_name", "M") if event["pid"] != 5}
    assert threads == {1000: "MME0", 2000: "TPC0", 3001: "PDMA1", 4000: "EDMA0"}
    assert len(named(found, "thread_sort_index", "M")) == len(named(found, "thread_name", "M"))


def test_nodes_that_run_at_once_on_one_engine_get_lanes_of_their_own(tmp_path: Path) -> None:
    crowded = recipe(
        "graph_0",
        node(Engine.TPC, "a_0", 0.0, 4e-6),
        node(Engine.TPC, "b_1", 1e-6, 4e-6),
        node(Engine.TPC, "c_2", 4e-6, 4e-6),
    )
    found = traced(tmp_path, FakeCard(recipes={"graph_0": crowded}), lambda card: card.timeline.launch("graph_0"))
    lanes = {event["name"]: event["tid"] for event in found if event.get("cat") == "Kernel"}
    assert lanes == {"a_bf16": 2000, "b_bf16": 2001, "c_bf16": 2000}


def test_arrows_lead_from_the_enqueue_to_the_first_node(tmp_path: Path) -> None:
    found = traced(tmp_path, FakeCard(), lambda card: card.step(2))
    tails = {event["id"]: event for event in found if event["ph"] == "s"}
    heads = {event["id"]: event for event in found if event["ph"] == "f"}
    assert set(tails) == set(heads) and len(tails) == 4  # two launches, two copies
    launches, gemms = named(found, "launch"), named(found, "gemm_bf16")
    arrows = [(tails[number]["ts"], heads[number]["ts"]) for number in (1, 3)]
    assert arrows == [(launch["ts"], gemm["ts"]) for launch, gemm in zip(launches, gemms, strict=True)]
    assert not [event for event in traced(tmp_path, FakeCard(), FakeCard.step, flow=False) if event["ph"] in "sf"]


def test_the_host_s_threads_show_work_waits_and_the_bridge_s_functions(tmp_path: Path) -> None:
    def work(card: FakeCard) -> None:
        card.timeline.record(10)
        card.timeline.hand_over()
        card.timeline.compile(STEP.name, 0.001)
        card.timeline.launch(STEP.name)
        card.timeline.wait()
        card.timeline.record(10)
        card.timeline.hand_over()
        card.timeline.launch(STEP.name)

    found = traced(tmp_path, FakeCard(), work)
    (compile_,) = named(found, "compile")
    assert (compile_["ts"], compile_["dur"]) == (40.0, 1000.0)
    (wait,) = named(found, "wait")  # for the compilation, the launch and the card
    assert (wait["ts"], wait["dur"]) == (40.0, 1000.0 + 60.0 + 30.0)
    begins = [event["name"] for event in found if event["ph"] == "B"]
    ends = [event["name"] for event in found if event["ph"] == "E"]
    first = ["hpu_lazy", "SyncTensorsGraphInternal", "LaunchSyncTensorsGraph"]
    assert begins == [*first, "hpu_lazy", "SyncTensorsGraphInternal", "ExecuteCachedGraph", "LaunchSyncTensorsGraph"]
    assert sorted(begins) == sorted(ends)
    assert named(found, "SyncTensorsGraphInternal", "B")[0]["ts"] == compile_["ts"]
    assert {"synLaunchWithExternalEvents", "synEventSynchronize"} <= {event["name"] for event in found}


def test_waits_for_two_copies_in_a_row_are_two(tmp_path: Path) -> None:
    def work(card: FakeCard) -> None:
        card.timeline.record(1)
        card.timeline.hand_over()
        for _ in range(3):
            card.timeline.copy("h2d", 4, pinned=True, wait=True)
        card.timeline.record(1)
        card.timeline.hand_over()

    found = traced(tmp_path, FakeCard(), work)
    copies = [(event["ts"], event["dur"]) for event in named(found, "MemcpyH2D")]
    assert [(event["ts"], event["dur"]) for event in named(found, "wait")] == copies
    assert [event["ts"] for event in named(found, "synMemCopyAsync")] == [start for start, _ in copies]


def test_eager_operators(tmp_path: Path) -> None:
    def work(card: FakeCard) -> None:
        card.timeline.compile(STEP.name, 0.004)
        card.timeline.eager(STEP.name)
        card.timeline.eager("unknown")

    card = FakeCard()
    card.timeline.learn("unknown", 1e-6)
    found = traced(tmp_path, card, work)
    assert [event["name"] for event in found if event["ph"] == "B"] == [
        "add_new_recipe", "LaunchRecipeTask", "launch_recipe", "launch", "LaunchRecipeTask", "launch_recipe", "launch",
    ]  # fmt: skip
    assert not [event for event in found if event["name"].startswith("wait")]  # the launch thread's work holds up none
    (unknown,) = named(found, "unknown")
    assert (unknown["args"]["engine"], unknown["dur"]) == ("TPC", 1.0)


def test_a_full_queue_is_a_wait_of_the_launch_thread(tmp_path: Path) -> None:
    card = FakeCard(recipes={"graph_0": recipe("graph_0", node(Engine.MME, "gemm_0", 0.0, 1.0))})
    found = traced(tmp_path, card, lambda card: [card.timeline.launch("graph_0") for _ in range(HOST.queue_depth + 1)])
    (wait,) = named(found, "wait for the queue")
    assert wait["ts"] == pytest.approx((HOST.queue_depth + 1) * HOST.launch_s * 1e6)
    assert wait["ts"] + wait["dur"] == pytest.approx((HOST.launch_s + 1.0) * 1e6)


def test_a_collective_shows_its_transfer_on_the_ports(tmp_path: Path) -> None:
    """Each process group has a line of its own; before the transfer, the wait for its last rank."""
    transfers = [
        Transfer("all_reduce", 4096, "0", (0, 1), 1.0, 1.25, 1.25, 1.5, last=1),
        Transfer("broadcast", 64, "1", (0, 2), 1.0, 1.0, 1.0, 1.5),
    ]
    found = traced(tmp_path, FakeCard(), lambda card: [card.timeline.collective(one) for one in transfers])
    (event,) = named(found, "all_reduce")
    assert (event["pid"], event["tid"], event["ts"], event["dur"]) == (4, 12000, 1.25e6, 0.25e6)
    assert event["args"]["bytes"] == 4096 and event["args"]["waited for other ranks (us)"] == 250000.0
    (wait,) = named(found, "wait for rank 1")
    assert (wait["tid"], wait["ts"], wait["dur"]) == (12000, 1.0e6, 0.25e6)
    (other,) = named(found, "broadcast")
    assert (other["tid"], other["ts"]) == (12001, 1.0e6)


def test_memory_is_drawn_as_curves_and_told_to_tensorboard(tmp_path: Path) -> None:
    def work(card: FakeCard) -> None:
        observer = card.timeline.observer
        observer.memory(0.0, 4096, 1024, 3072)
        observer.memory(0.5, 5120, 2048, 3072)
        observer.memory(1.0, 5120, 2048, 3072)
        observer.bridge("collect_live_tensors", 1.0, 1.5)

    found = traced(tmp_path, FakeCard(), work)
    assert [event["args"] for event in named(found, "HBM", "C")][-1] == {
        "in use": 5120, "persistent": 2048, "workspace": 3072,
    }  # fmt: skip
    changes = [(event["ts"], event["args"]["Bytes"]) for event in named(found, "[memory]", "i")]
    assert changes == [(0.0, 4096), (0.5e6, 1024)]
    assert named(found, "collect_live_tensors", "B")[0]["ts"] == 1e6


@pytest.mark.parametrize(
    ("settings", "categories"),
    [
        ({"host": False, "phase": "device-acq"}, {"Kernel", "Memcpy"}),
        ({"hardware_trace": False}, {"Runtime"}),
        ({"engines": ("MME",)}, {"Kernel", "Runtime", "enqueue"}),
    ],
)
def test_what_is_turned_off_is_not_there(tmp_path: Path, settings: dict, categories: set[str]) -> None:
    session = Session(
        ProfilerConfig(**({"phase": "device-acq", "output_dir": str(tmp_path)} | settings)), card := FakeCard()
    )
    (path,) = session.paths
    card.step()
    session.finish()
    found = events(path)
    assert {event["cat"] for event in found if "cat" in event} == categories
    if "engines" in settings:
        assert {event["args"]["engine"] for event in found if event.get("cat") == "Kernel"} == {"MME"}


def test_csv(tmp_path: Path) -> None:
    card = FakeCard()
    config = ProfilerConfig(phase="device-acq", output_dir=str(tmp_path), add_pid=False, formats=("csv",))
    session = Session(config, card)
    card.step(2)
    session.finish()
    raw = list(csv.DictReader((tmp_path / "default_profiling.csv").open()))
    assert tuple(raw[0]) == RAW_COLUMNS
    gemm = [row for row in raw if row["Operation"] == "gemm_bf16"]
    assert [row["Event type"] for row in gemm] == ["Begin", "End"] * 2
    assert float(gemm[1]["Timestamp[usec]"]) - float(gemm[0]["Timestamp[usec]"]) == pytest.approx(20.0)
    assert (gemm[0]["Engine"], gemm[0]["Data Type"], gemm[0]["recipeHandle"]) == ("[HD0] MME 0", "bf16", "0x0")
    nodes = list(csv.DictReader((tmp_path / "default_profiling_analyzed_nodes.csv").open()))
    assert tuple(nodes[0]) == NODE_COLUMNS
    first = nodes[0]
    assert (first["Node name"], first["Invocations"], first["Total[usec]"], first["Average[usec]"]) == (
        "gemm_0", "2", "40.000", "20.000",
    )  # fmt: skip


def test_hltv_holds_the_same_as_json(tmp_path: Path) -> None:
    session = Session(
        ProfilerConfig(phase="device-acq", output_dir=str(tmp_path), formats=("json", "hltv")), card := FakeCard()
    )
    json_path, hltv_path = session.paths
    card.step()
    session.finish()
    assert hltv_path.suffix == ".hltv" and hltv_path.read_text() == json_path.read_text()


def test_the_header_describes_the_card_and_says_that_time_is_modelled(tmp_path: Path) -> None:
    traced(tmp_path, FakeCard(), FakeCard.step)
    trace = json.loads((tmp_path / "default_profiling.json").read_text())
    assert trace["hpu_time"] == "modelled"
    assert trace["deviceProperties"] == [{"id": 0, "name": "GAUDI2", "totalGlobalMem": GAUDI2.hbm.capacity_bytes}]
    assert (trace["card"], trace["module"], trace["rank"]) == ("gaudi2", 3, 0)


def test_groups_of_the_first_generation() -> None:
    layout = SessionLayout(load_card("gaudi"))
    places = [layout.node(engine) for engine in (Engine.DMA, Engine.MME, Engine.TPC)]
    assert [(place.tid, place.thread) for place in places] == [(1000, "DMA0"), (2000, "MME0"), (3000, "TPC0")]
    assert layout.link("h2d").tid != layout.link("d2h").tid


def test_pytorch_s_traces_have_one_process_for_the_card() -> None:
    layout = TorchLayout(GAUDI2)
    assert {layout.node(engine).process for engine in Engine} == {"/device:HPU:0"}
    assert [layout.host(line).process for line in ("main", "bridge main", "synapse main", "memory")] == [
        "Bridge Logs", "Bridge Logs", "Synapse Logger", "Memory Logs",
    ]  # fmt: skip


def test_moments_are_rounded_so_that_neighbours_never_overlap(tmp_path: Path) -> None:
    assert microseconds(nanoseconds(1.2345e-3)) == "1234.500"
    assert microseconds(-1500) == "-1.500"
    card = FakeCard()
    tiny = [node(Engine.TPC, f"n_{number}", number * 1e-9 / 3, 1e-9 / 3) for number in range(100)]
    session = Session(ProfilerConfig(phase="device-acq", output_dir=str(tmp_path), add_pid=False), card)
    card.recipes["tiny"] = recipe("tiny", *tiny)
    card.timeline.learn("tiny", tiny[-1].end)
    card.timeline.launch("tiny")
    session.finish()
    spans = [
        (e["ts"], e["ts"] + e["dur"]) for e in events(tmp_path / "default_profiling.json") if e["name"] == "n_bf16"
    ]
    assert all(first[1] <= second[0] + 1e-6 for first, second in itertools.pairwise(spans))


def test_any_number_of_observers() -> None:
    class Counter:
        def __init__(self) -> None:
            self.calls = 0

        def launched(self, *_: object) -> None:
            self.calls += 1

        def host(self, *_: object) -> None: ...

    card, first, second = FakeCard(), Counter(), Counter()
    attach(card.timeline, first)
    attach(card.timeline, first)
    card.timeline.launch(STEP.name)
    assert card.timeline.observer is first
    attach(card.timeline, second)
    assert isinstance(card.timeline.observer, Observers)
    card.timeline.launch(STEP.name)
    detach(card.timeline, first)
    card.timeline.launch(STEP.name)
    detach(card.timeline, second)
    detach(card.timeline, second)
    card.timeline.launch(STEP.name)
    assert (first.calls, second.calls, card.timeline.observer) == (2, 2, None)
