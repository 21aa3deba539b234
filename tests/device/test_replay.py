"""A run's log, and its replay: on the same card it gives the same figures, on another that card's."""

from __future__ import annotations

import dataclasses
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device.compiler.compile import place
from device.compiler.program import Program
from device.journal import Journal
from device.network import Transfer
from device.replay import CardReplay, LogError, Meeting, read_record
from device.run_log import END_MARK, END_STEP, MAX_SEQUENCE, SEGMENT_CALLS, RunLog
from device.spec import CardSpec, load_card
from device.timeline import COMPUTE, Timeline

from .programs import GAUDI2, addition, gemm, program

GAUDI3 = load_card("gaudi3")
GEMM_HEAVY = program(*(gemm(number, 8192, 8192, 8192) for number in range(4)))
ELEMENTWISE_HEAVY = program(*(addition(number, 2**28) for number in range(4)))


class Run:
    """A run on a card, as a card makes it: programs that are compiled and launched on a timeline with a log."""

    def __init__(self, spec: CardSpec = GAUDI2, log: RunLog | None = None) -> None:
        self.log = RunLog() if log is None else log
        self.timeline = Timeline(spec, log=self.log)
        self.names: dict[str, Program] = {}

    def compile(self, name: str, made: Program, eager: bool = False) -> None:
        recipe = place(made, self.timeline.spec, name, name)
        self.log.learn(name, made, eager)
        self.timeline.learn(name, recipe.seconds)
        self.timeline.compile(name, self.timeline.spec.compile.eager_s if eager else recipe.compile_seconds)

    def step(self, name: str, operators: int = 100, end: tuple[str] = END_STEP) -> None:
        self.timeline.record(operators)
        self.timeline.hand_over()
        self.timeline.launch(name)
        self.timeline.wait()
        self.log.end_step(end)

    def document(self) -> dict[str, Any]:
        return json.loads(json.dumps(self.log.document(self.timeline.spec, launch_thread=True)))


def training(made: Program, steps: int = 5) -> Run:
    run = Run()
    run.compile("graph_0", made)
    for _ in range(steps):
        run.timeline.copy("h2d", 2**20, False, True)
        run.step("graph_0")
    return run


def transfer(operation: str, begin: float, nbytes: int = 4096) -> Transfer:
    """One of a millisecond, for which everybody was ready at `begin`."""
    return Transfer(operation, nbytes, "0", (0, 1), begin, begin, begin, begin + 1e-3)


def replayed(run: Run, spec: CardSpec) -> CardReplay:
    """The run on one card of that kind; collectives take a millisecond."""
    replay = CardReplay(read_record(run.document()), spec)
    meetings = replay.run()
    meeting = next(meetings, None)
    while meeting is not None:
        end = transfer(meeting.operation, meeting.moment) if meeting.is_end else None
        try:
            meeting = meetings.send(end)
        except StopIteration:
            meeting = None
    return replay


class TestLog:
    def test_equal_steps_are_kept_once(self) -> None:
        document = training(GEMM_HEAVY, steps=50).document()
        assert document["sequence"] == [[0, 1], [1, 49]]
        assert len(document["segments"]) == 2
        assert len(document["calls"]) == 7

    def test_without_steps_segments_have_a_length(self) -> None:
        log = RunLog()
        for _ in range(3 * SEGMENT_CALLS + 1):
            log.add(("poll",))
        document = log.document(GAUDI2, True)
        assert document["sequence"] == [[0, 3], [1, 1]]
        assert [len(segment) for segment in document["segments"]] == [SEGMENT_CALLS, 1]

    def test_a_document_may_be_made_while_the_run_goes_on(self) -> None:
        run = training(GEMM_HEAVY, steps=2)
        run.timeline.record(3)
        first = run.document()
        assert run.document() == first
        assert first["sequence"][-1] == [2, 1]
        run.step("graph_0")
        assert run.document()["sequence"][:2] == first["sequence"][:2]

    def test_calls_beyond_the_bound_are_dropped_and_that_is_said(self) -> None:
        run = Run(log=RunLog(max_calls=100))
        run.compile("graph_0", GEMM_HEAVY)
        for number in range(200):
            run.step("graph_0", operators=number)  # no two alike
        document = run.document()
        assert document["truncated"]
        assert sum(map(len, document["segments"])) <= 100
        assert replayed(run, GAUDI2).journal.steps == len(document["sequence"])

    def test_programs_beyond_the_bound_end_the_log(self) -> None:
        run = Run(log=RunLog(max_nodes=10))
        for number in range(5):
            run.compile(f"graph_{number}", GEMM_HEAVY)  # four nodes each
            run.step(f"graph_{number}")
        document = run.document()
        assert document["truncated"]
        assert replayed(run, GAUDI2).journal.steps == 2

    def test_memory_is_bounded(self) -> None:
        log = RunLog(max_calls=20_000)
        tracemalloc.start()
        for number in range(200_000):
            log.add(("user", number * 1e-6))
        grown, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert log.truncated
        assert grown < 20_000 * 400

    def test_the_sequence_is_bounded(self) -> None:
        log = RunLog()
        for number in range(MAX_SEQUENCE + 10):
            log.add(("record", number % 2))
            log.end_step()
        assert log.truncated
        assert len(log.document(GAUDI2, True)["sequence"]) == MAX_SEQUENCE


_CALLS: dict[str, Callable[[Timeline, int, int], object]] = {
    "record": lambda timeline, a, b: timeline.record(a),
    "user": lambda timeline, a, b: timeline.user(a * 1e-5),
    "hand over": lambda timeline, a, b: timeline.hand_over(),
    "launch": lambda timeline, a, b: timeline.launch(f"graph_{a % 2}", b % 3),
    "launch after": lambda timeline, a, b: timeline.launch(f"graph_{a % 2}", b % 3, (1 + a % 4,)),
    "eager": lambda timeline, a, b: timeline.eager("eager_0", b % 3),
    "replay": lambda timeline, a, b: timeline.replay(("graph_0", "graph_1"), b % 3),
    "copy in": lambda timeline, a, b: timeline.copy("h2d", a * 1000, bool(b % 2), False),
    "copy out": lambda timeline, a, b: timeline.copy("d2h", a * 1000, True, bool(b % 2), (1,)),
    "join": lambda timeline, a, b: timeline.join(),
    "wait": lambda timeline, a, b: timeline.wait(),
    "wait stream": lambda timeline, a, b: timeline.wait_stream(b % 3),
    "poll": lambda timeline, a, b: timeline.poll(),
    "mark": lambda timeline, a, b: timeline.mark(b % 3),
    "stream after": lambda timeline, a, b: timeline.stream_after(a % 3, timeline.mark(b % 3)),
    "host after": lambda timeline, a, b: timeline.host_after(timeline.mark(b % 3)),
    "fallback": lambda timeline, a, b: timeline.fallback(a, b),
    "defragment": lambda timeline, a, b: timeline.defragment(a),
}


class TestReplay:
    def test_the_same_card_gives_the_same_times(self) -> None:
        run = training(GEMM_HEAVY)
        replay = replayed(run, GAUDI2)
        assert replay.timeline.now == run.timeline.now
        assert replay.timeline.compiling == run.timeline.compiling
        assert replay.timeline.busy == run.timeline.busy
        figures = replay.figures()
        assert figures["steps"] == 5
        assert figures["time"]["total"] == run.timeline.now
        parts = [figures["time"][name] for name in ("host", "compile", "device", "collectives")]
        assert sum(parts) == pytest.approx(run.timeline.now)

    @given(st.lists(st.tuples(st.sampled_from(sorted(_CALLS)), st.integers(0, 50), st.integers(0, 50)), max_size=60))
    def test_so_does_any_run(self, calls: list[tuple[str, int, int]]) -> None:
        run = Run()
        run.compile("graph_0", GEMM_HEAVY)
        run.compile("graph_1", ELEMENTWISE_HEAVY)
        run.compile("eager_0", program(addition(0, 1000)), eager=True)
        for name, a, b in calls:
            _CALLS[name](run.timeline, a, b)
        replay = replayed(run, GAUDI2)
        assert replay.timeline.now == run.timeline.now
        assert replay.timeline.main == run.timeline.main
        assert replay.timeline.streams == run.timeline.streams

    def test_step_marks_before_the_first_step_of_an_optimizer_are_no_steps_of_its_own(self) -> None:
        run, journal = Run(), Journal()
        run.compile("graph_0", GEMM_HEAVY)
        for end in (END_MARK, END_STEP, END_STEP, END_STEP):
            run.step("graph_0", end=end)
            (journal.mark if end == END_MARK else journal.end_step)(run.timeline.now)
        figures = replayed(run, GAUDI2).figures()
        assert (figures["steps"], figures["time"]["step"]) == (3, journal.step_seconds())

    def test_another_card_compiles_and_runs_with_its_own_figures(self) -> None:
        replay = replayed(training(GEMM_HEAVY), GAUDI3)
        placed = place(GEMM_HEAVY, GAUDI3, "graph_0", "")
        assert replay.timeline.busy[COMPUTE] == pytest.approx(5 * placed.seconds)
        assert replay.timeline.compiling == placed.compile_seconds
        assert replay.spec.name == "gaudi3"

    @pytest.mark.parametrize(
        ("made", "ratio"),
        [(GEMM_HEAVY, 1835e12 / 432e12), (ELEMENTWISE_HEAVY, 3.67e12 / 2.45e12)],
        ids=["gemm", "elementwise"],
    )
    def test_gaudi3_is_faster_by_what_bounds_the_step(self, made: Program, ratio: float) -> None:
        """By the peaks (4.25) where products dominate, by the memory's bandwidth (1.50) where elementwise work does."""
        run = training(made)
        device = [replayed(run, card).timeline.busy[COMPUTE] for card in (GAUDI2, GAUDI3)]
        assert device[0] / device[1] == pytest.approx(ratio, rel=0.12)

    def test_a_collective_begins_where_the_card_arrived(self) -> None:
        run = Run()
        run.compile("graph_0", GEMM_HEAVY)
        run.timeline.launch("graph_0")
        begin = run.timeline.arrive("all_reduce", 4096, "0", (0, 1))
        run.timeline.record(1000)
        run.timeline.collective(transfer("all_reduce", begin))
        replay = CardReplay(read_record(run.document()), GAUDI2)
        meetings = replay.run()
        assert next(meetings) == Meeting("all_reduce", 4096, "0", (0, 1), begin)
        assert meetings.send(None) == Meeting("all_reduce", 4096, "0", (0, 1), begin, is_end=True)
        with pytest.raises(StopIteration):
            meetings.send(transfer("all_reduce", begin))
        assert replay.timeline.now == run.timeline.now
        assert replay.journal.communication.total.seconds == pytest.approx(1e-3)

    def test_without_an_arrival_it_begins_where_it_ends(self) -> None:
        run = Run()
        run.timeline.record(10)
        moment = run.timeline.now
        run.timeline.collective(Transfer("barrier", 0, "0", (0, 1), moment, moment, moment, moment))
        replay = replayed(run, GAUDI2)
        assert replay.journal.communication.total.count == 1
        assert replay.timeline.now == pytest.approx(moment + GAUDI2.host.collective_s + 1e-3)


class TestDamagedLogs:
    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda d: d.update(format=9), "format: expected 2, got 9"),
            (lambda d: d.pop("segments"), "segments: missing"),
            (lambda d: d.pop("recipes"), "recipes: missing"),
            (lambda d: d["card"].pop("mme"), "key 'mme' is missing"),
            (lambda d: d["calls"].__setitem__(0, ["explode"]), r"calls\[0\]: .*explode.* is no call"),
            (lambda d: d["calls"].__setitem__(0, ["record", "ten"]), r"calls\[0\]"),
            (lambda d: d["calls"].__setitem__(0, []), r"calls\[0\]"),
            (lambda d: d["calls"].__setitem__(0, ["record", -1]), r"calls\[0\]"),
            (lambda d: d["calls"].__setitem__(0, ["record", 10**400]), r"calls\[0\]"),
            (lambda d: d["calls"].__setitem__(0, ["user", float("inf")]), r"calls\[0\]"),
            (lambda d: d["calls"].__setitem__(0, ["host_after", 5]), r"calls\[0\]"),
            (lambda d: d["calls"].__setitem__(0, ["launch", "graph_0", 0, [-1]]), r"calls\[0\]"),
            (lambda d: d["calls"].__setitem__(0, ["copy", "sideways", 1, True, True, []]), r"calls\[0\]: .*sideways"),
            (lambda d: d["segments"][0].append(99), "segments"),
            (lambda d: d["segments"][0].append(-1), "segments"),
            (lambda d: d["sequence"].append([7, 1]), "sequence"),
            (lambda d: d["recipes"]["programs"].update(graph_0=[1, 2, 3]), "programs.graph_0"),
        ],
    )
    def test_it_is_said_where(self, damage: Callable[[dict[str, Any]], object], message: str) -> None:
        document = training(GEMM_HEAVY).document()
        damage(document)
        with pytest.raises(LogError, match=message):
            read_record(document)

    def test_a_recipe_without_a_program(self) -> None:
        document = training(GEMM_HEAVY).document()
        document["recipes"]["programs"].clear()
        with pytest.raises(LogError, match="graph_0 is launched, and there is no program of it"):
            list(CardReplay(read_record(document), GAUDI2).run())

    @pytest.mark.parametrize("document", [None, [], "log", 3])
    def test_anything_else(self, document: object) -> None:
        with pytest.raises(LogError, match="expected an object"):
            read_record(document)


def test_a_users_own_card() -> None:
    """A card of half the peak takes twice as long for what the matrix engine bounds."""
    mme = dataclasses.replace(GAUDI2.mme, peak_flops={name: peak / 2 for name, peak in GAUDI2.mme.peak_flops.items()})
    half = dataclasses.replace(GAUDI2, name="half", mme=mme)
    run = training(GEMM_HEAVY)
    device = [replayed(run, card).timeline.busy[COMPUTE] for card in (half, GAUDI2)]
    assert device[0] / device[1] == pytest.approx(2.0, rel=0.02)
