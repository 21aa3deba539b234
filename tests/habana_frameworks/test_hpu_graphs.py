"""HPU graphs: capture and replay on the same memory, at the price of one launch; and what cannot be captured."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import nn

import habana_frameworks.torch.core as htcore
from device.backend import runtime
from device.timeline import COMPUTE, COPY_IN, COPY_OUT


class TestHPUGraph:
    def test_the_capture_runs_and_each_replay_runs_again(self) -> None:
        graph, stream = torch.hpu.HPUGraph(), torch.hpu.Stream()
        x = torch.ones(1, 1, device="hpu")
        torch.hpu.synchronize()
        with torch.hpu.stream(stream):
            graph.capture_begin()
            x += 1
            graph.capture_end()
        assert x.item() == 2
        graph.replay()
        graph.replay(asynchronous=True)
        assert x.item() == 4

    def test_several_recipes_are_replayed_in_order(self) -> None:
        graph = torch.hpu.HPUGraph()
        x = torch.ones(3, device="hpu")
        with torch.hpu.graph(graph):
            y = x * 2
            htcore.mark_step()
            z = y + x
        assert z.tolist() == [3, 3, 3]
        x.fill_(10)
        graph.replay()
        assert (y.tolist(), z.tolist()) == ([20] * 3, [30] * 3)

    def test_random_numbers_are_drawn_anew(self) -> None:
        graph = torch.hpu.HPUGraph()
        with torch.hpu.graph(graph):
            x = torch.rand(8, device="hpu")
        first = x.tolist()
        graph.replay()
        second = x.tolist()
        graph.replay()
        assert first != second != x.tolist()

    def test_a_generator_that_was_given_is_drawn_from_again(self) -> None:
        def drawn() -> list[torch.Tensor]:
            generator = torch.Generator(device="hpu").manual_seed(5)
            graph = torch.hpu.HPUGraph()
            with torch.hpu.graph(graph):
                x = torch.empty(8, device="hpu").uniform_(generator=generator)
            values = [x.cpu()]
            torch.rand(3, device="hpu")  # the card's own generator plays no part
            graph.replay()
            return [*values, x.cpu(), torch.rand(8, device="hpu", generator=generator).cpu()]

        one, two = drawn(), drawn()
        assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
        assert not torch.equal(one[0], one[1])

    def test_a_replay_costs_the_host_one_launch_and_no_recording(self) -> None:
        graph = torch.hpu.HPUGraph()
        x = torch.ones(4, device="hpu")
        with torch.hpu.graph(graph):
            for _ in range(50):
                x = x * 1.5
        torch.hpu.synchronize()
        line = runtime.card().timeline
        before, activities = line.main, line.activities
        graph.replay(asynchronous=True)
        assert line.launcher - before == pytest.approx(line.spec.host.graph_replay_s)
        assert line.activities - activities == 1

    def test_errors_name_what_is_missing(self) -> None:
        graph = torch.hpu.HPUGraph()
        with pytest.raises(RuntimeError, match="no capture"):
            graph.capture_end()
        graph.capture_begin()
        with pytest.raises(RuntimeError, match="under way"):
            torch.hpu.HPUGraph().capture_begin()
        with (
            torch.hpu.stream(torch.hpu.Stream()),
            pytest.raises(RuntimeError, match="the capture began on"),
        ):
            graph.capture_end()
        assert not torch.hpu.is_current_stream_capturing()


class TestWrappedModules:
    def test_inputs_and_outputs_are_static(self) -> None:
        class Square(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x * x

        module = torch.hpu.wrap_in_hpu_graph(Square())
        first, second = torch.tensor([2.0]).to("hpu"), torch.tensor([5.0]).to("hpu")
        with torch.no_grad():
            out = module(first)
            kept = out.clone()
            again = module(second)
        assert again is out
        assert (out.item(), kept.item(), first.item()) == (25, 4, 5)

    def test_another_shape_is_another_graph_up_to_a_limit(self) -> None:
        calls = []

        def double(x: torch.Tensor) -> torch.Tensor:
            calls.append(tuple(x.shape))
            return x * 2

        wrapped = torch.hpu.wrap_in_hpu_graph_func(double, max_graphs=1)
        for size in (2, 2, 3, 3):
            assert wrapped(torch.ones(size, device="hpu")).sum().item() == 2 * size
        assert calls == [(2,), (3,), (3,)]  # the second form runs as it is
        wrapped(torch.ones(2, device="hpu"), bypass_hpu_graphs=True)
        wrapped.clear_cache()  # type: ignore[attr-defined]
        wrapped(torch.ones(3, device="hpu"))
        assert len(calls) == 5

    @pytest.mark.parametrize(
        "function",
        [
            lambda x: x * float(x.sum().item()),
            lambda x: x[x > 0] * 2,
            lambda x: x.cpu().to("hpu") + 1,
            lambda x: torch.linalg.eigvalsh(x.reshape(1, 1)),
        ],
        ids=["item", "boolean mask", "copy to the host", "cpu fallback"],
    )
    def test_what_needs_the_host_cannot_be_captured(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        wrapped = torch.hpu.wrap_in_hpu_graph_func(function)
        with pytest.raises(RuntimeError, match="not supported during hpu graph capturing"):
            wrapped(torch.ones(1, device="hpu"))
        assert torch.ones(2).to("hpu").sum().item() == 2  # the card goes on


class TestReplaysAndCopies:
    """A replay starts when the copies to its inputs have arrived; a copy follows the replays that use its tensor."""

    def test_inputs_arrive_before_the_replay_and_outputs_leave_after_it(self) -> None:
        x = torch.zeros(2**20, device="hpu")
        graph = torch.hpu.HPUGraph()
        with torch.hpu.graph(graph):
            y = x * 2
        torch.hpu.synchronize()
        line = runtime.card().timeline
        source, result = torch.ones(2**20).pin_memory(), torch.empty(2**20).pin_memory()
        ends: list[float] = []
        for _ in range(2):
            x.copy_(source, non_blocking=True)
            ends.append(line.free[COPY_IN])
            graph.replay(asynchronous=True)
            ends.append(line.free[COMPUTE])
        result.copy_(y, non_blocking=True)
        ends.append(line.free[COPY_OUT])
        copy = line.spec.pcie.latency_s + 4 * 2**20 / line.spec.pcie.bandwidth_bytes_per_s
        work = runtime.card().recipes.graphs.latest().recipe.seconds
        gaps = [end - start for start, end in itertools.pairwise(ends)]
        assert gaps == pytest.approx([work, copy, work, copy])
        assert result.tolist() == [2.0] * 2**20

    def test_a_graph_that_was_let_go_holds_nothing_up(self) -> None:
        x = torch.zeros(2**20, device="hpu")
        graph = torch.hpu.HPUGraph()
        with torch.hpu.graph(graph):
            for _ in range(100):
                x.mul_(2.0).sum()
        torch.hpu.synchronize()
        graph.replay(asynchronous=True)
        graph.reset()
        other = torch.zeros(4).to("hpu", non_blocking=True)
        line = runtime.card().timeline
        assert line.free[COPY_IN] < line.free[COMPUTE]
        assert other.sum().item() == 0


def test_a_capture_ends_where_memory_runs_out() -> None:
    graph, x = torch.hpu.HPUGraph(), torch.ones(2, device="hpu")
    graph.capture_begin()
    too_large = torch.empty(2**36, device="hpu") + 1
    with pytest.raises(torch.OutOfMemoryError):
        graph.capture_end()
    del too_large
    assert not torch.hpu.is_current_stream_capturing()
    with torch.hpu.graph(graph):
        y = x + 1
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [6, 6]


def test_a_replay_of_a_training_step_is_a_step() -> None:
    net = nn.Linear(4, 4).to("hpu")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.ones(2, 4, device="hpu")

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        net(x).sum().backward()
        optimizer.step()

    step()
    graph, journal = torch.hpu.HPUGraph(), runtime.card().journal
    with torch.hpu.graph(graph):
        step()
    before = journal.steps
    for _ in range(5):
        graph.replay()
    assert journal.steps == before + 5
    graph.reset()
