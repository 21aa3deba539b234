"""What HPU graphs cannot do is told, with what to do instead; the card goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import habana_frameworks.torch.core as htcore
from device import strict
from device.backend import runtime
from device.buckets import dynamic_shapes

X = Callable[[torch.Tensor], Any]
CANNOT: dict[str, tuple[X, str]] = {
    "item": (lambda x: x * float(x.sum().item()), "reading a value on the host .*torch.where in place of if"),
    "if": (lambda x: x if x.sum() > 0 else -x, "reading a value on the host"),
    "print": (lambda x: print(x) or x, "(a copy to|reading a value on) the host"),
    "cpu": (lambda x: x.cpu().to("hpu") + 1, "a copy to the host"),
    "cpu after work": (lambda x: (x * 2).cpu(), "a copy to the host"),
    "boolean mask": (lambda x: x[x > 0] * 2, "aten::.*whose result's shape depends on data.*torch.where"),
    "nonzero": (lambda x: x.nonzero(), "aten::nonzero, whose result's shape depends on data"),
    "unique": (lambda x: x.unique(), "aten::_unique2, whose result's shape depends on data"),
    "cpu fallback": (lambda x: torch.linalg.eigvalsh(x.outer(x)), "cpu fallback is not .* the card has no aten::"),
    "nested capture": (lambda x: torch.hpu.wrap_in_hpu_graph_func(lambda y: y + 1)(x), "a second one cannot begin"),
}


def still_works() -> bool:
    return torch.ones(2).to("hpu").sum().item() == 2 and not torch.hpu.is_current_stream_capturing()


@pytest.mark.filterwarnings("ignore:Boolean")
@pytest.mark.parametrize("name", CANNOT)
class TestWhatCannotBeCaptured:
    def test_by_a_wrapped_function(self, name: str) -> None:
        function, message = CANNOT[name]
        wrapped = torch.hpu.wrap_in_hpu_graph_func(function)
        for _ in range(2):
            with pytest.raises(RuntimeError, match=message) as caught:
                wrapped(torch.ones(3).to("hpu"))
            if name != "nested capture":
                assert "not supported during hpu graph capturing" in str(caught.value)
                assert "test_hpu_graph_errors.py:" in str(caught.value)
            assert still_works()

    def test_by_module_cacher(self, name: str) -> None:
        function, message = CANNOT[name]

        class Model(nn.Linear):
            def forward(self, x: torch.Tensor) -> Any:  # type: ignore[override]
                return function(super().forward(x).sum(0).detach())

        cached = torch.hpu.ModuleCacher()(Model(3, 3).to("hpu"))
        with pytest.raises(RuntimeError, match=f"ModuleCacher cannot cache Model: .*{message}"):
            cached(torch.ones(2, 3).to("hpu"))
        assert not cached.is_hpugraph_tracing()
        assert still_works()


def test_operands_that_do_not_fit_are_told_as_outside_a_capture() -> None:
    layer = torch.hpu.wrap_in_hpu_graph(nn.Linear(3, 1).to("hpu"))
    with pytest.raises(RuntimeError, match=r"shapes cannot be multiplied"):
        layer(torch.ones(2, 4, device="hpu"))
    assert still_works()
    assert layer(torch.ones(2, 3, device="hpu")).shape == (2, 1)


def test_an_operator_of_another_library_that_a_replay_would_leave_out() -> None:
    library = torch.library.Library("hpu_graph_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    twice = torch.ops.hpu_graph_test.twice
    assert twice(torch.ones(3, device="hpu")).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match=r"hpu_graph_test::twice, the shape of .* not supported during hpu graph"):
        torch.hpu.wrap_in_hpu_graph_func(lambda x: twice(x + 1))(torch.ones(3, device="hpu"))
    assert still_works()


class TestCapture:
    def test_one_that_was_given_up_says_why_when_it_is_to_end(self) -> None:
        graph, x = torch.hpu.HPUGraph(), torch.ones(2, device="hpu")
        graph.capture_begin()
        with contextlib.suppress(RuntimeError):
            (x + 1).tolist()
        with pytest.raises(RuntimeError, match="no capture of an HPU graph is under way: a copy to the host"):
            graph.capture_end()
        with pytest.raises(RuntimeError, match="captured nothing"):
            graph.replay()

    def test_a_block_that_raises_is_not_captured(self) -> None:
        graph, x = torch.hpu.HPUGraph(), torch.ones(2, device="hpu")
        with pytest.raises(KeyError), torch.hpu.graph(graph):
            y = x + 1
            raise KeyError
        assert y.tolist() == [2, 2]
        assert torch.hpu.current_stream() == torch.hpu.default_stream()
        with pytest.raises(RuntimeError, match="captured nothing"):
            graph.replay()

    def test_a_graph_that_is_dropped_does_not_capture_on(self) -> None:
        graph = torch.hpu.HPUGraph()
        graph.capture_begin()
        del graph
        assert still_works()

    def test_only_the_graph_that_began_may_end(self) -> None:
        graph, other = torch.hpu.HPUGraph(), torch.hpu.HPUGraph()
        graph.capture_begin()
        with pytest.raises(RuntimeError, match="another HPUGraph's"):
            other.capture_end()
        graph.capture_end()

    def test_no_replay_inside(self) -> None:
        x = torch.ones(2, device="hpu")
        first, second = torch.hpu.HPUGraph(), torch.hpu.HPUGraph()
        with torch.hpu.graph(first):
            x += 1
        message = "a replay is not supported during hpu graph capturing"
        with pytest.raises(RuntimeError, match=message), torch.hpu.graph(second):
            first.replay()
        assert still_works()

    def test_a_collective_that_is_not_recorded(self) -> None:
        graph = torch.hpu.HPUGraph()
        graph.capture_begin()
        with pytest.raises(RuntimeError, match=r"collective nonSFG is not supported during hpu graph .*LAZY_COLL"):
            runtime.card().collective_begins("all_reduce", 4, "world", (0, 1), [])
        assert still_works()

    def test_dynamic_shapes_go_off_and_stay_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dynamic_shapes, "_closed", False, raising=False)
        graph = torch.hpu.HPUGraph()
        with torch.hpu.graph(graph):
            torch.ones(2, device="hpu")
        torch.hpu.enable_dynamic_shape()
        assert not torch.hpu.get_dynamic_shape_status()

    def test_a_replay_before_any_capture_does_nothing_and_says_so(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(strict, "_noted", set())
        graph = torch.hpu.HPUGraph()
        for call in (graph.replay, lambda: graph.replayV2([], []), lambda: graph.replayV3([])):
            call()
        told = capsys.readouterr().err
        assert told.count("has captured nothing does nothing; call capture_begin() and capture_end() before it") == 1
        monkeypatch.setattr(strict, "enabled", lambda: True)
        with pytest.raises(RuntimeError, match="HPUGraph that has captured nothing"):
            graph.replay()

    def test_a_replay_of_what_was_let_go_is_an_error(self) -> None:
        graph = torch.hpu.HPUGraph()
        with torch.hpu.graph(graph):
            torch.ones(2, device="hpu")
        graph.reset()
        for call in (graph.replay, lambda: graph.replayV2([], []), lambda: graph.replayV3([])):
            with pytest.raises(RuntimeError, match=r"captured nothing \(.*let go of it\); call capture_begin"):
                call()

    def test_calls_out_of_place(self) -> None:
        graph, x = torch.hpu.HPUGraph(), torch.ones(2, device="hpu")
        with pytest.raises(RuntimeError, match="captured nothing"):
            graph.mark_user_outputs([])
        with pytest.raises(RuntimeError, match="between capture_begin"):
            graph.mark_user_inputs([x])
        graph.capture_begin()
        graph.mark_user_inputs([x])
        y = x * 2
        graph.capture_end()
        graph.mark_user_outputs([y])
        with pytest.raises(RuntimeError, match="called before"):
            graph.mark_user_outputs([y])
        with pytest.raises(RuntimeError, match=r"input 0 has sizes \(3,\), and the graph was captured with \(2,\)"):
            graph.replayV3([torch.ones(3, device="hpu")])
        with pytest.raises(RuntimeError, match="captured with 1 marked inputs, and 0 were given"):
            graph.replayV3([])
        with pytest.raises(RuntimeError, match="input 0 is on cpu"):
            graph.replayV3([torch.ones(2)])
        with pytest.raises(RuntimeError, match=r"tensor 0 has sizes \(3,\)"):
            graph.replayV2([y], [torch.ones(3, device="hpu")])
        with pytest.raises(RuntimeError, match="given 0 tensors for 1"):
            graph.replayV2([y], [])


class TestGraphedCallables:
    def test_calls_that_do_not_fit(self) -> None:
        module = torch.hpu.make_graphed_callables(nn.Linear(2, 2).to("hpu"), (torch.ones(3, 2, device="hpu"),))
        with pytest.raises(RuntimeError, match=r"Linear: argument 0 is \(4, 2\) .*captured as \(3, 2\)"):
            module(torch.ones(4, 2, device="hpu"))
        with pytest.raises(RuntimeError, match="bfloat16 on hpu"):
            module(torch.ones(3, 2, device="hpu", dtype=torch.bfloat16))
        with pytest.raises(RuntimeError, match="captured with 1 tensors and is called with 0"):
            module()

    def test_a_module_that_was_moved(self) -> None:
        x = torch.ones(3, 2, device="hpu")
        module = torch.hpu.make_graphed_callables(nn.Linear(2, 2).to("hpu"), (x,))
        module.to("cpu")
        with pytest.raises(RuntimeError, match=r"stale: parameter 'weight' is on cpu now.*make_graphed_callables"):
            module(x)
        module.to("hpu")
        with pytest.raises(RuntimeError, match="stale: parameter 'weight' was moved or replaced"):
            module(x)

    def test_unused_inputs(self) -> None:
        x, y = (torch.ones(2, device="hpu", requires_grad=True) for _ in range(2))
        with pytest.raises(RuntimeError, match=r"argument 1 .* not have been used in the graph; .*allow_unused"):
            torch.hpu.make_graphed_callables(lambda x, y: x * 2, (x, y))

    def test_what_is_no_tensor(self) -> None:
        x = torch.ones(2, device="hpu")
        with pytest.raises(RuntimeError, match="must be a tuple of tensors"):
            torch.hpu.make_graphed_callables(lambda x, y: x * y, (x, 2.0))
        with pytest.raises(RuntimeError, match="returns dict, and a graphed callable returns a tensor or a tuple"):
            torch.hpu.make_graphed_callables(lambda x: {"y": x}, (x,))
        with pytest.raises(RuntimeError, match="2 callables and 1 tuples"):
            torch.hpu.make_graphed_callables((torch.sin, torch.cos), ((x,),))

    def test_modules_with_hooks_or_trainable_buffers(self) -> None:
        x = torch.ones(1, 2, device="hpu")
        module = nn.Linear(2, 2).to("hpu")
        module.register_forward_hook(lambda *_: None)
        with pytest.raises(RuntimeError, match="Linear has hooks"):
            torch.hpu.make_graphed_callables(module, (x,))
        module = nn.Linear(2, 2).to("hpu")
        module.register_buffer("scale", torch.ones(2, device="hpu", requires_grad=True))
        with pytest.raises(RuntimeError, match="buffer 'scale' of Linear requires gradients"):
            torch.hpu.make_graphed_callables(module, (x,))

    def test_a_backward_pass_after_a_further_forward_pass(self) -> None:
        x = torch.ones(1, 2, device="hpu")
        module = torch.hpu.make_graphed_callables(nn.Linear(2, 2).to("hpu"), (x,))
        first, second = module(x).sum(), module(x).sum()
        with pytest.raises(RuntimeError, match=r"backward\(\) of an earlier call, after 1 more"):
            first.backward()
        second.backward()


class TestModuleCacher:
    def test_stale_graphs(self) -> None:
        cached = torch.hpu.ModuleCacher()(nn.Linear(2, 2).to("hpu"))
        x = torch.ones(1, 2, device="hpu")
        cached(x)
        cached.to("cpu").to("hpu")
        with pytest.raises(RuntimeError, match=r"stale: parameter 'weight' was moved or replaced.*Linear.clear_cache"):
            cached(x)
        cached.clear_cache()
        cached(x).sum().backward()
        assert cached.bias.grad.tolist() == [1, 1]

    def test_unused_parameters(self) -> None:
        class Half(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.used, self.unused = nn.Linear(2, 2), nn.Linear(2, 2)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.used(x)

        x = torch.ones(1, 2, device="hpu")
        with pytest.raises(RuntimeError, match=r"Half: parameter 'unused.weight' and 1 more .*allow_unused_input=True"):
            torch.hpu.ModuleCacher()(Half().to("hpu"))(x)
        torch.hpu.ModuleCacher()(Half().to("hpu"), allow_unused_input=True)(x).sum().backward()

    def test_what_cannot_be_cached_at_all(self) -> None:
        with pytest.raises(RuntimeError, match="DataParallel goes around a module that was cached"):
            torch.hpu.ModuleCacher()(nn.DataParallel(nn.Linear(2, 2)))
        with pytest.raises(RuntimeError, match="takes a module, not function"):
            torch.hpu.ModuleCacher()(lambda x: x)  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="max_graphs=-1"):
            torch.hpu.ModuleCacher(max_graphs=-1)

        class Silent(nn.Linear):
            def forward(self, x: torch.Tensor) -> None:  # type: ignore[override]
                return None

        with pytest.raises(RuntimeError, match=r"returns no tensor \(NoneType\)"):
            torch.hpu.ModuleCacher()(Silent(2, 2).to("hpu"))(torch.ones(1, 2, device="hpu"))

    def test_tensors_hidden_in_objects_are_told(self) -> None:
        class Box:
            def __init__(self, tensor: torch.Tensor) -> None:
                self.tensor = tensor

        class Boxed(nn.Linear):
            def forward(self, x: torch.Tensor) -> Any:  # type: ignore[override]
                y = super().forward(x)
                return y, Box(y.detach() * 2)

        cached = torch.hpu.ModuleCacher()(Boxed(2, 2).to("hpu"))
        with pytest.warns(UserWarning, match="no list, tuple, dictionary or dataclass"):
            cached(torch.ones(1, 2, device="hpu"))


def test_wrapped_modules_that_were_moved_are_stale() -> None:
    module = torch.hpu.wrap_in_hpu_graph(nn.Linear(2, 2).to("hpu"))
    x = torch.ones(1, 2, device="hpu")
    with torch.no_grad():
        module(x)
        module.weight.fill_(3.0)
        module.bias.zero_()
        assert module(x).tolist() == [[6, 6]]  # values may change
        module.weight.data = module.weight.data * 2
        with pytest.raises(RuntimeError, match=r"stale: parameter 'weight' was moved or replaced.*clear_cache\(\)"):
            module(x)
        module.clear_cache()
        assert module(x).tolist() == [[12, 12]]
    with pytest.raises(TypeError, match="takes a module, not str"):
        torch.hpu.wrap_in_hpu_graph("model")
    with pytest.raises(TypeError, match="argument of type bytearray cannot be hashed"):
        torch.hpu.wrap_in_hpu_graph_func(lambda x, y: x)(x, bytearray())


def test_outside_lazy_mode_there_are_no_captures(script: Callable[..., Any]) -> None:
    script(
        """
        import warnings
        import torch, habana_frameworks.torch as ht
        from torch import nn

        x = torch.ones(1, 2, device="hpu")
        module = nn.Linear(2, 2).to("hpu")
        for attempt in (
            ht.hpu.HPUGraph,
            lambda: ht.hpu.graph(None),
            lambda: ht.hpu.wrap_in_hpu_graph_func(torch.sin)(x),
            lambda: ht.hpu.make_graphed_callables(module, (x,)),
        ):
            try:
                attempt()
                raise SystemExit("captured in eager mode")
            except RuntimeError as error:
                assert "lazy mode only" in str(error) and "PT_HPU_LAZY_MODE=1" in str(error), error
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            cacher = ht.hpu.ModuleCacher()
            cached = cacher(module)
        assert "need lazy mode" in str(told[-1].message)
        cached(x).sum().backward()
        assert cacher.uncached == {"eager mode": 1} and module.bias.grad.tolist() == [1, 1]
        assert not ht.hpu.is_current_stream_capturing()
        """,
        PT_HPU_LAZY_MODE="0",
    )


def test_an_output_of_a_dry_capture_waits_for_the_replay() -> None:
    graph, x = torch.hpu.HPUGraph(), torch.ones(2, device="hpu")
    with torch.hpu.graph(graph, dry_run=True):
        x += 1
        htcore.mark_step()
        y = x * 2
    assert x.tolist() == [1, 1]
    graph.replay()
    assert (x.tolist(), y.tolist()) == ([2, 2], [4, 4])
