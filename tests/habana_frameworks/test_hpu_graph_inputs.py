"""Inputs, outputs and memory of HPU graphs: what is shared, what is replaced, and what decides that a graph fits."""

from __future__ import annotations

import copy
import gc
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import habana_frameworks.torch as ht
import habana_frameworks.torch.core as htcore
from device.backend import runtime

MB = 2**20
LAYERS = 6


def full(value: float, size: int = 2) -> torch.Tensor:
    return torch.full((size,), float(value)).to("hpu")


class TestReplacedInputs:
    def test_marked_inputs_are_replaced_and_keep_their_values(self) -> None:
        graph, x, bias = torch.hpu.HPUGraph(), full(1), full(10)
        graph.capture_begin()
        graph.mark_user_inputs([x, torch.ones(1), bias[:1]])
        y = x * 2 + bias
        graph.capture_end()
        assert graph.get_user_input_match_indices() == {0}  # the others are on the host, and a part of a tensor
        assert (x.tolist(), y.tolist()) == ([1, 1], [12, 12])
        other = full(3)
        graph.replayV3([other, torch.ones(1), bias[:1]])
        assert (x.tolist(), other.tolist(), y.tolist()) == ([1, 1], [3, 3], [16, 16])
        bias.fill_(0)
        graph.replayV3([other.t(), torch.ones(1), bias[:1]], asynchronous=True)
        assert y.tolist() == [6, 6]

    def test_what_the_graph_writes_to_an_input_is_in_that_of_the_replay(self) -> None:
        graph, x = torch.hpu.HPUGraph(), full(1)
        graph.capture_begin()
        graph.mark_user_inputs([x])
        x += 5
        graph.capture_end()
        assert x.tolist() == [6, 6]
        other = full(2)
        graph.replayV3([other])
        graph.clear_inputs()
        assert (x.tolist(), other.tolist()) == ([6, 6], [7, 7])

    def test_static_tensors_can_be_replaced_for_one_replay(self) -> None:
        graph, x = torch.hpu.HPUGraph(), full(1)
        with torch.hpu.graph(graph):
            y = x * 2
        graph.replayV2([x], [full(7)])
        assert (x.tolist(), y.tolist()) == ([1, 1], [14, 14])
        graph.replayV2([x], [y])  # an output as the next input
        assert y.tolist() == [28, 28]
        graph.replay()
        assert y.tolist() == [2, 2]

    def test_a_replay_follows_the_copies_to_its_inputs(self) -> None:
        graph, x = torch.hpu.HPUGraph(), torch.zeros(MB, device="hpu")
        graph.capture_begin()
        graph.mark_user_inputs([x])
        y = x * 2
        graph.capture_end()
        torch.hpu.synchronize()
        line = runtime.card().timeline
        arriving = torch.ones(MB).pin_memory().to("hpu", non_blocking=True)
        arrived = line.free["copy in"]
        graph.replayV3([arriving], asynchronous=True)
        assert line.free["compute"] == pytest.approx(arrived + runtime.card().recipes.graphs.latest().recipe.seconds)
        assert y.sum().item() == 2 * MB


@pytest.mark.parametrize("disable_tensor_cache", [False, True])
class TestWrapped:
    def test_outputs_are_the_same_tensors_each_time(self, disable_tensor_cache: bool) -> None:
        wrapped = torch.hpu.wrap_in_hpu_graph_func(lambda x: {"y": x + 1}, disable_tensor_cache=disable_tensor_cache)
        x, other = full(1), full(5)
        first = wrapped(x)
        assert first["y"].tolist() == [2, 2]
        assert wrapped(other) is first
        assert first["y"].tolist() == [6, 6]
        assert x.tolist() == ([1, 1] if disable_tensor_cache else [5, 5])
        assert wrapped.statistics()["replays"] == 1

    def test_a_module_may_return_or_change_its_input(self, disable_tensor_cache: bool) -> None:
        def step(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x.mul_(2)
            return x, y

        wrapped = torch.hpu.wrap_in_hpu_graph_func(step, disable_tensor_cache=disable_tensor_cache)
        for value in (1.0, 3.0, 4.0):
            x, y = full(value), full(value)
            double, same = wrapped(x, y)
            assert (double.tolist(), same.tolist()) == ([2 * value] * 2, [value] * 2)

    def test_values_on_the_host_decide_which_graph_it_is(self, disable_tensor_cache: bool) -> None:
        wrapped = torch.hpu.wrap_in_hpu_graph_func(
            lambda x, factor, shift: x * factor + shift.to("hpu"), disable_tensor_cache=disable_tensor_cache
        )
        for factor, shift in ((2.0, 0.0), (3.0, 1.0), (2.0, 0.0), (-1.0, 0.0), (-2.0, 0.0)):
            got = wrapped(full(1), torch.tensor(factor), torch.full((2,), shift))
            assert got.tolist() == [factor + shift] * 2
        assert wrapped.statistics()["captures"] == 4

    def test_the_same_tensor_twice_is_another_form_of_call(self, disable_tensor_cache: bool) -> None:
        wrapped = torch.hpu.wrap_in_hpu_graph_func(torch.sub, disable_tensor_cache=disable_tensor_cache)
        x = full(3)
        assert wrapped(x, x).tolist() == [0, 0]
        assert wrapped(full(3), full(1)).tolist() == [2, 2]


class TestWrappedOptions:
    def test_keywords_for_the_wrapper(self) -> None:
        calls: list[float] = []

        def double(x: torch.Tensor) -> torch.Tensor:
            calls.append(1)
            return x * 2

        wrapped = torch.hpu.wrap_in_hpu_graph_func(double, disable_tensor_cache=True)
        first = wrapped(full(1), warmup_mode=True)
        assert wrapped(full(5), warmup_mode=True) is first
        assert first.tolist() == [2, 2]  # no replay in warm-up
        assert wrapped(full(5), bypass_hpu_graphs=True).tolist() == [10, 10]
        assert wrapped(full(5), cache_tensors_list=[full(1)]) is first
        assert (len(calls), first.tolist()) == (2, [10, 10])
        assert wrapped.statistics() == {
            "captures": 1,
            "replays": 1,
            "bypassed": 1,
            "beyond max_graphs": 0,
            "not on hpu": 0,
        }

    def test_the_worker_and_the_environment_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PT_HPUGRAPH_DISABLE_TENSOR_CACHE", "1")
        cache: dict[Any, Any] = {}
        stream = torch.hpu.default_stream()
        for value in (1.0, 2.0):
            got = ht.hpu.wrapped_hpugraph_forward(
                cache, stream, torch.exp2, (full(value),), {}, False, False, False, None
            )
            assert got.tolist() == [2**value] * 2
        (cached,) = cache.values()
        assert isinstance(cached, ht.hpu.graphs.CachedParams)
        assert cached.out_tinfo_list == [{"shape": (2,), "dtype": torch.float32, "device": torch.device("hpu", 0)}]
        assert cached.graph_inputs == ()

    def test_a_module_keeps_its_face_and_its_copies_have_no_graphs(self) -> None:
        module = torch.hpu.wrap_in_hpu_graph(nn.Linear(2, 2).to("hpu"))
        assert module.forward.__wrapped__.__func__ is nn.Linear.forward
        x = torch.ones(1, 2, device="hpu")
        with torch.no_grad():
            module(x)
            other = copy.deepcopy(module)
            other.weight.zero_()
            other.bias.zero_()
            assert other(x).tolist() == [[0, 0]]
        assert other.hpu_graph_statistics()["captures"] == module.hpu_graph_statistics()["captures"] == 1

    def test_a_module_on_the_host_is_not_captured(self) -> None:
        module = torch.hpu.wrap_in_hpu_graph(nn.Linear(2, 2))
        with torch.no_grad():
            for value in (1.0, 2.0):
                module.weight.fill_(value)
                assert torch.equal(module(torch.ones(1, 2)), module(torch.ones(1, 2), bypass_hpu_graphs=True))
        assert module.hpu_graph_statistics()["not on hpu"] == 2

    def test_the_pattern_of_users_own_caches(self) -> None:
        """As pipelines do it: a hash, a capture, and copies to its inputs."""
        cache: dict[int, Any] = {}
        stream = ht.hpu.Stream()
        results = []
        for value in (1.0, 2.0, 4.0):
            inputs = [full(value), None, {"scale": full(10)}, False]
            key = ht.hpu.graphs.input_hash(inputs)
            cached = cache.get(key)
            if cached is None:
                with ht.hpu.stream(stream):
                    graph = ht.hpu.HPUGraph()
                    graph.capture_begin()
                    outputs = inputs[0] * inputs[2]["scale"]  # type: ignore[index, operator]
                    graph.capture_end()
                    cache[key] = ht.hpu.graphs.CachedParams(inputs, outputs, graph)
            else:
                ht.hpu.graphs.copy_to(cached.graph_inputs, inputs)
                cached.graph.replay()
                ht.core.hpu.default_stream().synchronize()
                outputs = cached.graph_outputs
            results.append(outputs.tolist())
        assert (len(cache), results) == (1, [[10, 10], [20, 20], [40, 40]])


class Layers(nn.Module):
    """Recipes one after another, each with an intermediate result of 4 MiB."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(LAYERS):
            x = x * 1.5
            htcore.mark_step()
        return x.sum()


def in_use() -> float:
    gc.collect()
    torch.hpu.synchronize()
    return torch.hpu.memory_allocated() / MB


class TestMemory:
    """MiB of the card in use, over what there was before."""

    @pytest.mark.parametrize("dry_run", [False, True])
    def test_inputs_and_all_that_is_made_stay(self, dry_run: bool) -> None:
        before = in_use()
        wrapped = torch.hpu.wrap_in_hpu_graph(Layers(), dry_run=dry_run)
        x = torch.ones(MB, device="hpu")
        wrapped(x)
        del x
        assert in_use() - before == 4 * (1 + LAYERS)
        x = full(2, MB)
        assert wrapped(x).item() == pytest.approx(2 * MB * 1.5**LAYERS)
        del x
        assert in_use() - before == 4 * (1 + LAYERS)
        wrapped.clear_cache()
        assert in_use() == before

    def test_without_tensor_cache_only_outputs_stay(self) -> None:
        before = in_use()
        wrapped = torch.hpu.wrap_in_hpu_graph(Layers(), disable_tensor_cache=True)
        torch.hpu.reset_peak_memory_stats()
        for value in (1.0, 2.0):
            x = full(value, MB)
            assert wrapped(x).item() == pytest.approx(value * MB * 1.5**LAYERS)
            assert in_use() - before == 4
            del x
            assert in_use() == before
        # The input, and of the results the one that is read and the one that is written.
        assert torch.hpu.max_memory_allocated() / MB - before == 4 * (1 + 2)

    def test_a_dry_capture_holds_nothing_before_its_replay(self) -> None:
        graph, x = torch.hpu.HPUGraph(), torch.ones(MB, device="hpu")
        before = in_use()
        with torch.hpu.graph(graph, dry_run=True):
            y = x * 2
        assert in_use() == before
        graph.replay()
        assert in_use() - before == 4
        assert y.sum().item() == 2 * MB
        graph.reset()
        del y
        assert in_use() == before


class TestCost:
    def test_a_replay_is_a_fixed_number_of_calls_whatever_it_computes(self) -> None:
        def calls(work: Callable[[], None]) -> int:
            count = 0

            def note(frame: FrameType, event: str, argument: Any) -> None:
                nonlocal count
                count += event in ("call", "c_call")

            sys.setprofile(note)
            try:
                work()
            finally:
                sys.setprofile(None)
            return count

        seen = []
        for operators in (5, 500):
            graph, x = torch.hpu.HPUGraph(), torch.ones(4, device="hpu")
            with torch.hpu.graph(graph):
                for _ in range(operators):
                    x = x + 1
            graph.replay(asynchronous=True)
            seen.append(calls(lambda graph=graph: graph.replay(asynchronous=True)))  # type: ignore[misc]
        assert seen[0] == seen[1]

    def test_several_recipes_are_one_launch(self) -> None:
        graph, x = torch.hpu.HPUGraph(), torch.ones(4, device="hpu")
        with torch.hpu.graph(graph):
            for _ in range(3):
                x = x + 1
                htcore.mark_step()
        torch.hpu.synchronize()
        line = runtime.card().timeline
        before, activities = line.launcher, line.activities
        graph.replay(asynchronous=True)
        assert line.launcher - max(before, line.main) == pytest.approx(line.spec.host.graph_replay_s)
        assert line.activities - activities == 3


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Record:
    tensor: torch.Tensor
    name: str = "record"


class TestContainers:
    def test_tensors_go_out_and_come_back(self) -> None:
        a, b, c = (full(value) for value in (1, 2, 3))
        packer = torch.hpu.TensorPacker()
        tensors, form = packer.pack(({"x": a, "n": 4}, [b, "text"]))
        assert str(form) == "({'x': #0, 'n': 4}, [#1, 'text'])"
        assert packer.unpack(tensors, form) == ({"x": a, "n": 4}, [b, "text"])
        nested = Pair(Record(a), OrderedDict(y=(b, Pair(c, None))))
        tensors, form = packer.pack(nested)
        back = packer.unpack(tuple(reversed(tensors)), form)
        assert type(back) is Pair
        assert back.left == Record(c)
        assert back.left is not nested.left
        assert type(back.right) is OrderedDict
        assert back.right["y"] == (b, Pair(a, None))

    def test_tensors_are_found(self) -> None:
        class Cache:
            def __init__(self, tensor: torch.Tensor) -> None:
                self.keys = [tensor]
                self.me = self

        a, b, c = (full(value) for value in (1, 2, 3))
        given = ((a, {"k": [b], "n": None}), Record(c))
        assert all(x is y for x, y in zip(ht.hpu.graphs.get_user_input_tensor_list(given, ()), (a, b, c), strict=True))
        assert ht.hpu.graphs.extract_tensors([given, Cache(a)]) == [a, b, c, a]

    def test_copies_go_to_containers_of_the_same_form(self) -> None:
        into, out_of = (
            [full(1), {"k": (full(2), Record(full(3)), "a")}],
            [full(4), {"k": (full(5), Record(full(6)), "b")}],
        )
        torch.hpu.copy_to(into, out_of)
        assert [tensor.tolist() for tensor in ht.hpu.graphs.extract_tensors(into)] == [[4, 4], [5, 5], [6, 6]]
        for other, message in (
            ((full(4), {}), "tuple does not go into list"),
            ([full(4), {"q": 1}], r"at \[1\] hold \[\"\['q'\]\"\]"),
            ([full(4), {"k": (full(5), None, "b")}], r"NoneType does not go into Record at \[1\]\['k'\]\[1\]"),
        ):
            with pytest.raises(TypeError, match=message):
                torch.hpu.copy_to(into, other)
        with pytest.raises(RuntimeError, match=r"sizes \(3,\) does not go into one of \(2,\) at \[0\]"):
            torch.hpu.copy_to([full(1)], [full(1, 3)])


class TestInputHash:
    def test_values_of_tensors_do_not_count_but_all_else_does(self) -> None:
        base = torch.zeros(4, 4).to("hpu")
        same = [torch.ones(4, 4).to("hpu"), torch.zeros(4, 4).to("hpu")]
        assert len({torch.hpu.input_hash(tensor) for tensor in (base, *same)}) == 1
        other = [
            torch.ones(4, 5).to("hpu"),
            base.t(),
            base.int(),
            torch.zeros(4, 4),
            base[:, :2],
            base[:, 2:],
            [base],
            (base,),
            {"a": base},
            {"b": base},
            Record(base),
            Record(base, "other"),
            OrderedDict(a=base),
        ]
        assert len({torch.hpu.input_hash(value) for value in (base, *other)}) == 1 + len(other)

    def test_plain_values_are_told_apart(self) -> None:
        values = [-1, -2, 1, 1.0, True, None, "1", (1,), [1], {1}, torch.Size([1]), torch.float32]
        assert len({torch.hpu.input_hash(value) for value in values}) == len(values)

    def test_autocast_counts(self) -> None:
        x = full(1)
        plain = torch.hpu.input_hash((x, 1))
        with torch.autocast("hpu", dtype=torch.bfloat16):
            assert torch.hpu.input_hash((x, 1)) != plain
        assert torch.hpu.input_hash((x, 1)) == plain
