"""The modelled lines of time of one card: host threads, streams, engines, copies. All worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from device.network import Transfer
from device.spec import load_card
from device.timeline import COMPUTE, COPY_IN, HOST, INSIDE, NOBODY, Timeline

GAUDI2 = load_card("gaudi2")
SPEC = replace(
    GAUDI2,
    host=replace(
        GAUDI2.host,
        record_s=1.0,
        launch_s=2.0,
        eager_launch_s=3.0,
        graph_replay_s=0.5,
        poll_s=0.25,
        collective_s=0.5,
        queue_depth=2,
        staging_bytes_per_s=100.0,
    ),
    pcie=replace(GAUDI2.pcie, latency_s=1.0, bandwidth_bytes_per_s=50.0),
)


def timeline(launch_thread: bool = True, **durations: float) -> Timeline:
    line = Timeline(SPEC, launch_thread=launch_thread)
    for recipe, seconds in durations.items():
        line.learn(recipe, seconds)
    return line


class TestHost:
    def test_the_launch_thread_works_while_the_main_thread_goes_on(self) -> None:
        line = timeline(step=10.0)
        line.record(4)
        line.hand_over()
        line.compile("step", 5.0)
        line.launch("step")
        assert (line.main, line.launcher) == (4.0, 11.0)
        assert line.streams[0] == 21.0
        line.record(1)
        assert line.main == 5.0
        line.hand_over()  # the next graph waits for the launch thread
        assert line.main == 11.0

    def test_without_a_launch_thread_the_main_thread_compiles_and_launches(self) -> None:
        line = timeline(launch_thread=False, step=10.0)
        line.record(4)
        line.hand_over()
        line.compile("step", 5.0)
        line.launch("step")
        assert line.main == line.launcher == 11.0

    def test_a_full_queue_holds_the_launch_thread(self) -> None:
        line = timeline(step=10.0)
        for _ in range(4):
            line.hand_over()
            line.launch("step")
        # Launched at 2 and 4; the third waits for the first to end at 12, the fourth for the second at 22.
        assert line.launcher == 22.0
        assert line.streams[0] == 42.0

    def test_eager_operators_go_at_the_pace_of_the_host(self) -> None:
        line = timeline(add=1.0)
        for _ in range(3):
            line.eager("add")
        assert (line.main, line.streams[0]) == (9.0, 10.0)

    def test_a_replay_launches_many_recipes_at_one_price(self) -> None:
        line = timeline(forward=1.0, backward=2.0)
        line.hand_over()
        line.replay(("forward", "backward"))
        assert (line.launcher, line.streams[0]) == (0.5, 3.5)


class TestOverlap:
    """A step of four forward and four backward operators, in one graph or in two."""

    def step_seconds(self, forward: float, backward: float, split: bool, steps: int = 20) -> float:
        line = timeline(forward=forward, backward=backward, both=forward + backward)
        ends = []
        for _ in range(steps):
            for part in (("forward", 4), ("backward", 4)) if split else (("both", 8),):
                recipe, operators = part
                line.record(operators)
                line.hand_over()
                line.launch(recipe)
            line.wait()  # the loss is read
            ends.append(line.main)
        return ends[-1] - ends[-2]

    def test_where_the_host_is_the_bottleneck_a_mark_between_saves_what_then_overlaps(self) -> None:
        # One graph:  8 recording + 2 launching + 3 + 3 on the card                               = 16
        # Two graphs: 4 recording, the launch thread launches until 6, the card runs forward until 9, while the main
        #             thread records until 8; backward is launched at 10 and ends at 13.
        assert self.step_seconds(3.0, 3.0, split=False) == 16.0
        assert self.step_seconds(3.0, 3.0, split=True) == 13.0

    def test_where_the_card_is_the_bottleneck_and_nobody_waits_there_is_no_gain(self) -> None:
        def rate(split: bool) -> float:
            line = timeline(forward=50.0, backward=50.0, both=100.0)
            ends = []
            for _ in range(20):
                for recipe, operators in (("forward", 4), ("backward", 4)) if split else (("both", 8),):
                    line.record(operators)
                    line.hand_over()
                    line.launch(recipe)
                ends.append(line.streams[0])
            return ends[-1] - ends[-2]

        assert rate(split=False) == rate(split=True) == 100.0


class TestCopies:
    def test_a_blocking_copy_from_pageable_memory_is_staged_first(self) -> None:
        line = timeline()
        line.copy("h2d", 100, pinned=False, wait=True)
        assert line.main == 1.0 + 1.0 + 2.0  # staging, latency, transfer
        line.copy("d2h", 100, pinned=True, wait=True)
        assert line.main == 7.0

    def test_a_pinned_copy_overlaps_with_the_compute_before_it(self) -> None:
        line = timeline(step=10.0)
        line.hand_over()
        line.launch("step")
        number = line.copy("h2d", 100, pinned=True, wait=False)
        assert line.main == 0.0
        assert (line.free[COPY_IN], line.streams[0]) == (3.0, 12.0)
        line.hand_over()
        line.launch("step", after=(line.distance(number),))
        assert line.streams[0] == 22.0  # the copy had arrived long before

    def test_a_recipe_waits_for_the_copy_that_it_reads_and_for_no_other(self) -> None:
        line = timeline(step=10.0)
        number = line.copy("h2d", 1000, pinned=True, wait=False)  # until 21
        line.hand_over()
        line.launch("step")
        assert line.streams[0] == 12.0
        line.hand_over()
        line.launch("step", after=(line.distance(number),))
        assert line.streams[0] == 31.0

    def test_a_copy_waits_for_the_recipe_that_uses_its_card_side(self) -> None:
        line = timeline(step=10.0)
        line.hand_over()
        number = line.launch("step")
        line.copy("d2h", 50, pinned=True, wait=True, after=(line.distance(number),))
        assert line.main == 14.0

    def test_an_operator_on_the_host_takes_both_copies(self) -> None:
        line = timeline(step=10.0)
        line.hand_over()
        line.launch("step")
        line.fallback(50, 100)
        assert line.main == 12.0 + 2.0 + 3.0


class TestStreams:
    def test_two_streams_share_the_engines(self) -> None:
        line = timeline(a=10.0, b=10.0)
        line.hand_over()
        line.launch("a", stream=1)
        line.launch("b", stream=2)
        assert (line.streams[1], line.streams[2]) == (12.0, 22.0)
        assert line.busy[COMPUTE] == 20.0

    def test_a_stream_waits_for_a_mark_of_another(self) -> None:
        line = timeline(a=10.0, b=1.0)
        line.hand_over()
        line.launch("a", stream=1)
        mark = line.mark(1)
        line.stream_after(2, mark)
        line.launch("b", stream=2)
        assert (line.moment(mark), line.streams[2]) == (12.0, 13.0)

    def test_waiting_for_one_stream_or_mark(self) -> None:
        line = timeline(a=10.0, b=10.0)
        line.hand_over()
        line.launch("a", stream=1)
        mark = line.mark(1)
        line.launch("b", stream=2)
        line.host_after(mark)
        assert line.main == 12.0
        line.wait_stream(2)
        assert line.main == 22.0

    def test_asking_takes_time_and_so_comes_to_an_end(self) -> None:
        line = timeline(a=1.0)
        line.hand_over()
        line.launch("a")
        asked = 1
        while not line.poll_mark(line.mark(0) if asked == 1 else 1):
            asked += 1
        assert asked == 12  # the event lies at 3.0, and asking takes 0.25


class TestCollectives:
    """A rank is ready when its stream has come so far; what waits for the end goes on after it, the rest at once."""

    def transfer(self, begin: float, end: float, met: float | None = None, hbm: float = 0.0) -> Transfer:
        met = begin if met is None else met
        return Transfer("all_reduce", 1024, "0", (0, 1), begin, met, met, end, hbm_bytes_per_s=hbm)

    def arrived(self, line: Timeline) -> float:
        return line.arrive("all_reduce", 1024, "0", (0, 1))

    def test_a_card_is_ready_when_its_stream_is(self) -> None:
        line = timeline(a=9.0, b=5.0)
        line.hand_over()
        line.launch("a")
        line.launch("b", stream=1)
        launched = line.launcher
        assert self.arrived(line) == line.streams[0] < line.streams[1]
        assert (
            line.main == launched + SPEC.host.collective_s
        )  # the host has waited for its launch thread, not for the card

    def test_the_stream_waits_and_the_host_goes_on(self) -> None:
        line = timeline(a=1.0)
        begin = self.arrived(line)
        host = line.main
        assert line.collective(self.transfer(begin, begin + 8.0)) == 8.0
        assert (line.main, line.streams[0], line.now) == (host, begin + 8.0, begin + 8.0)
        line.hand_over()
        line.launch("a")
        assert line.streams[0] == begin + 9.0

    def test_a_barrier_holds_up_the_host(self) -> None:
        line = timeline()
        begin = self.arrived(line)
        line.collective(self.transfer(begin, begin + 8.0), waits=HOST)
        assert line.main == begin + 8.0

    def test_one_that_nobody_waits_for_holds_up_only_who_waits_for_everything(self) -> None:
        line = timeline(a=1.0)
        begin = self.arrived(line)
        assert line.collective(self.transfer(begin, begin + 8.0), waits=NOBODY) == 0.0
        line.hand_over()
        line.launch("a")
        assert line.streams[0] < begin + 8.0
        line.wait()
        assert line.main == begin + 8.0

    def test_computing_hides_it(self) -> None:
        line = timeline(a=6.0)
        begin = self.arrived(line)
        line.hand_over()
        line.launch("a")
        computed = line.streams[0]
        assert line.collective(self.transfer(begin, begin + 8.0)) == begin + 8.0 - computed
        assert line.engines["NIC"] == 8.0

    def test_the_ports_are_busy_once_however_much_they_carry(self) -> None:
        line = timeline()
        for begin, end, busy in (
            (0.0, 10.0, 10.0),
            (2.0, 5.0, 10.0),
            (8.0, 12.0, 12.0),
            (20.0, 21.0, 13.0),
            (11, 25, 25.0),
        ):
            line.collective(self.transfer(begin, end))
            assert line.engines["NIC"] == pytest.approx(busy)

    def test_both_share_the_memory(self) -> None:
        """A recipe that wants all of the HBM gets what the ports leave, here three quarters: it takes longer by a
        quarter of the time in which both run. One that wants little is not held up.
        """
        for wanted, longer in ((1.0, 0.25 * 4.0), (0.5, 0.0)):
            line = timeline()
            line.learn("a", 10.0, hbm_bytes=wanted * 10.0 * line.spec.hbm.bandwidth_bytes_per_s)
            begin = self.arrived(line)
            line.hand_over()
            line.launch("a")
            start, end = line.streams[0] - 10.0, line.streams[0]
            line.collective(self.transfer(begin, start + 4.0, hbm=0.25 * line.spec.hbm.bandwidth_bytes_per_s))
            assert line.streams[0] == pytest.approx(end + longer)
            assert line.free[COMPUTE] == pytest.approx(end + longer)


class TestCollectivesInRecipes:
    """What comes after a collective in its recipe waits for it; so do later recipes of the same launch."""

    def transfer(self, begin: float, seconds: float) -> Transfer:
        return Transfer("all_reduce", 1024, "0", (0, 1), begin, begin, begin, begin + seconds)

    def arrive(self, line: Timeline) -> float:
        return line.arrive_inside("all_reduce", 1024, "0", (0, 1))

    def test_two_in_one_recipe(self) -> None:
        line = timeline()
        line.learn("a", 10.0, collectives=(4.0, 7.0))
        line.hand_over()
        line.launch("a")
        start = line.streams[0] - 10.0
        assert self.arrive(line) == start + 4.0
        assert line.collective(self.transfer(start + 4.0, 2.0), waits=INSIDE) == 2.0
        assert self.arrive(line) == start + 9.0
        line.collective(self.transfer(start + 9.0, 1.0), waits=INSIDE)
        assert line.streams[0] == line.free[COMPUTE] == start + 13.0
        assert line.busy[COMPUTE] == 10.0 and line.engines["NIC"] == 3.0

    def test_in_the_recipes_of_a_captured_graph(self) -> None:
        line = timeline(b=3.0)
        line.learn("a", 10.0, collectives=(4.0,))
        line.hand_over()
        line.replay(("a", "b", "a"))
        start = line.streams[0] - 23.0
        for begin in (start + 4.0, start + 5.0 + 13.0 + 4.0):
            assert self.arrive(line) == begin
            line.collective(self.transfer(begin, 5.0), waits=INSIDE)
        assert line.streams[0] == start + 33.0
        line.launch("b")
        assert line.streams[0] == start + 36.0


class Notes:
    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def add(self, call: tuple[object, ...]) -> None:
        self.calls.append(call)


@pytest.mark.parametrize("launch_thread", [True, False])
def test_the_logged_calls_give_the_same_times_again(launch_thread: bool) -> None:
    notes = Notes()
    line = Timeline(SPEC, launch_thread, notes)
    again = Timeline(SPEC, launch_thread)
    for each in (line, again):
        each.learn("a", 10.0)
        each.learn("b", 2.0)
    line.record(3)
    line.hand_over()
    line.compile("a", 7.0)
    copy = line.copy("h2d", 500, pinned=False, wait=False)
    line.launch("a", 0, (line.distance(copy),))
    line.eager("b")
    mark = line.mark(0)
    line.stream_after(1, mark)
    line.replay(("a", "b"), 1)
    line.poll_mark(mark)
    line.host_after(mark)
    line.fallback(10, 20)
    line.wait_stream(1)
    line.join()
    line.wait()
    for name, *arguments in notes.calls:
        if name == "compile":
            arguments.append(7.0)  # how long it takes is the card's
        getattr(again, str(name))(*arguments)
    assert again.now == line.now
    assert again.streams == line.streams
    assert len(notes.calls) == 15
