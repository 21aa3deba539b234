"""Training with HPU graphs: gradients, running statistics and random numbers are those of the plain module."""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

import habana_frameworks.torch.core as htcore
from device.backend import runtime


class Net(nn.Module):
    """Running statistics, random numbers, an argument that is no tensor, and outputs in containers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8)
        self.dropout = nn.Dropout(0.3)
        self.second = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> dict[str, Any]:
        hidden = self.dropout(torch.relu(self.norm(self.first(x))))
        return {"y": self.second(hidden) * scale, "more": [hidden, "constant"]}


def train(model: nn.Module, steps: int = 6, accumulate: int = 1, to_none: bool = True, autocast: bool = False) -> Any:
    """Losses, the gradients of each step, and the state at the end."""
    torch.manual_seed(7)
    batches = [torch.randn(5, 6).to("hpu") for _ in range(3)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    seen = []
    for step in range(steps):
        with torch.autocast("hpu", dtype=torch.bfloat16, enabled=autocast):
            out = model(batches[step % 3], scale=2.0 if step % 2 else 1.0)
            loss = out["y"].float().pow(2).mean() + out["more"][0].float().mean()
        assert out["more"][1] == "constant"
        loss.backward()
        htcore.mark_step()
        seen.append(loss.detach().cpu())
        if (step + 1) % accumulate == 0:
            seen += [parameter.grad.cpu().clone() for parameter in model.parameters()]  # type: ignore[union-attr]
            optimizer.step()
            optimizer.zero_grad(set_to_none=to_none)
    return seen + [value.cpu() for value in model.state_dict().values()]


def assert_same(one: list[torch.Tensor], other: list[torch.Tensor]) -> None:
    assert len(one) == len(other)
    for number, (a, b) in enumerate(zip(one, other, strict=True)):
        assert torch.equal(a, b), number


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(0)
    return Net().to("hpu")


class TestModuleCacher:
    @pytest.mark.parametrize(
        "how",
        [
            {},
            {"accumulate": 3},
            {"accumulate": 2, "to_none": False},
            {"to_none": False},
            {"autocast": True},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("disable_tensor_cache", [False, True])
    def test_a_training_is_bit_for_bit_the_plain_one(
        self, net: Net, how: dict[str, Any], disable_tensor_cache: bool
    ) -> None:
        cacher = torch.hpu.ModuleCacher()
        cached = cacher(copy.deepcopy(net), disable_tensor_cache=disable_tensor_cache)
        assert_same(train(cached, **how), train(copy.deepcopy(net), **how))
        assert len(cacher.model_dict) == 2  # two values of `scale`
        assert sum(cacher.hits.values()) == 6

    def test_each_form_of_call_has_a_graph_up_to_the_limit(self, net: Net) -> None:
        cacher = torch.hpu.ModuleCacher(max_graphs=2)
        cached = cacher(copy.deepcopy(net), verbose=True)
        for size in (2, 3, 2, 4, 3):
            cached(torch.randn(size, 6).to("hpu"))["y"].sum().backward()
        assert (len(cacher.model_dict), cacher.uncached) == (2, {"max_graphs is reached": 1})
        cached.clear_cache()
        cached(torch.randn(4, 6).to("hpu"))
        assert len(cacher.model_dict) == 1

    def test_the_most_frequent_forms_can_be_chosen(self, net: Net) -> None:
        cacher = torch.hpu.ModuleCacher(max_graphs=1)
        cached = cacher(copy.deepcopy(net), use_lfu=True)
        cached.capture_start()
        for size in (2, 3, 3):
            cached(torch.randn(size, 6).to("hpu"))
        cached.capture_end()
        for size in (2, 3, 3):
            cached(torch.randn(size, 6).to("hpu"))["y"].sum().backward()
        assert sum(cacher.hits.values()) == 2
        assert cacher.uncached["not among the most frequent forms"] == 1

    def test_what_is_not_trained_on_the_card_runs_as_it_is_and_the_reason_is_counted(
        self, net: Net, capsys: pytest.CaptureFixture[str]
    ) -> None:
        cacher = torch.hpu.ModuleCacher()
        cached = cacher(copy.deepcopy(net).cpu(), verbose=True)
        x = torch.randn(4, 6)
        cached(x)
        cached.to("hpu")
        with torch.no_grad():
            cached(x.to("hpu"))
        cached.eval()(x.to("hpu"))
        cached.train()(x.to("hpu"))
        assert cacher.uncached == {"parameters are not on hpu": 1, "no gradients are enabled": 1, "evaluation": 1}
        cacher.log_stats()
        cacher.verbose = False
        told = capsys.readouterr().out
        assert "HPU Graph Statistics" in told
        assert "'evaluation': 1" in told
        assert "Total forwards executed   :- 4" in told

    def test_frozen_parameters_and_inputs_with_gradients_are_forms_of_their_own(self) -> None:
        torch.manual_seed(1)
        plain = nn.Linear(3, 2).to("hpu")
        cacher = torch.hpu.ModuleCacher()
        cached = cacher(copy.deepcopy(plain))
        for frozen, asked in ((False, False), (True, True), (False, True)):
            results = []
            for module in (plain, cached):
                module.bias.requires_grad_(not frozen)  # type: ignore[union-attr]
                module.zero_grad()
                x = torch.full((2, 3), 2.0, device="hpu", requires_grad=asked)
                module(x).pow(2).sum().backward()
                results.append([None if t.grad is None else t.grad.cpu().tolist() for t in (x, *module.parameters())])
            assert results[0] == results[1]
        assert len(cacher.model_dict) == 3

    def test_gradients_of_earlier_inputs_are_not_overwritten(self) -> None:
        cached = torch.hpu.ModuleCacher()(nn.Linear(3, 1, bias=False).to("hpu"))
        inputs = [torch.full((1, 3), float(n), device="hpu", requires_grad=True) for n in (1, 2)]
        for factor, x in zip((1.0, 5.0), inputs, strict=True):
            (cached(x) * factor).sum().backward()
        weight = cached.weight.cpu()
        assert torch.equal(inputs[0].grad.cpu(), weight)  # type: ignore[union-attr]
        assert torch.equal(inputs[1].grad.cpu(), 5 * weight)  # type: ignore[union-attr]
        assert inputs[0].tolist() == [[1, 1, 1]]
        grads = [torch.autograd.grad(cached(x).sum(), cached.weight)[0] for x in inputs]
        assert [grad.tolist() for grad in grads] == [[[1, 1, 1]], [[2, 2, 2]]]

    def test_copies_have_graphs_of_their_own(self, net: Net) -> None:
        cached = torch.hpu.ModuleCacher()(copy.deepcopy(net))
        x = torch.randn(4, 6).to("hpu")
        cached(x)
        other = copy.deepcopy(cached)
        with torch.no_grad():
            other.second.weight.zero_()
            other.second.bias.zero_()
        assert other(x)["y"].abs().sum().item() == 0
        assert cached(x)["y"].abs().sum().item() > 0

    def test_without_inplace_the_module_itself_stays_as_it_is(self, net: Net) -> None:
        module = copy.deepcopy(net)
        cacher = torch.hpu.ModuleCacher()
        cached = cacher(module, inplace=False)
        x = torch.randn(4, 6).to("hpu")
        module(x)
        assert not cacher.hits
        cached(x)["y"].sum().backward()
        assert sum(cacher.hits.values()) == 1
        assert module.second.weight.grad is not None  # parameters are shared

    def test_environment_variables_decide(self, net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PT_HPUGRAPH_DISABLE_TENSOR_CACHE", "1")
        monkeypatch.setenv("PT_HPUGRAPH_ENABLE_DRY_RUN", "1")
        cacher = torch.hpu.ModuleCacher()
        cacher(copy.deepcopy(net))
        assert (cacher.disable_tensor_cache, cacher.dry_run) == (True, True)

    def test_it_says_while_it_traces(self) -> None:
        seen = []

        class Watcher(nn.Linear):
            def forward(self, input: torch.Tensor) -> torch.Tensor:
                seen.append((self.is_hpugraph_tracing(), torch.hpu.is_current_stream_capturing()))
                return super().forward(input)

        cached = torch.hpu.ModuleCacher()(Watcher(2, 2).to("hpu"))
        x = torch.ones(1, 2, device="hpu")
        cached(x)
        cached(x)
        cached.eval()(x)
        assert seen == [(True, True), (False, False)]


class TestGraphedCallables:
    def test_modules_and_functions_in_a_row(self) -> None:
        torch.manual_seed(3)
        plain = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2)).to("hpu")
        first, last = copy.deepcopy(plain[0]), copy.deepcopy(plain[2])
        x = torch.randn(3, 4).to("hpu")
        middle = torch.zeros(3, 4, device="hpu", requires_grad=True)
        first, square, last = torch.hpu.make_graphed_callables(
            (first, lambda x: x * x, last), ((x.clone(),), (middle,), (middle.detach().clone().requires_grad_(),)), 2
        )
        for scale in (1.0, 3.0):
            want = plain[2](plain[0](x * scale).pow(2)).sum()
            got = last(square(first(x * scale))).sum()
            plain.zero_grad()
            for module in (first, last):
                module.zero_grad()
            want.backward()
            got.backward()
            assert torch.allclose(got.cpu(), want.cpu())
            for module, other in ((first, plain[0]), (last, plain[2])):
                assert torch.allclose(module.weight.grad.cpu(), other.weight.grad.cpu())

    def test_the_other_training_mode_runs_as_it_is(self) -> None:
        module = nn.Dropout(0.5)
        x = torch.ones(64, device="hpu")
        graphed = torch.hpu.make_graphed_callables(module, (x,))
        assert graphed is module
        first, second = graphed(x).tolist(), graphed(x).tolist()
        assert first != second  # new random numbers
        assert graphed.eval()(x).tolist() == [1.0] * 64

    def test_outputs_without_gradient_have_none(self) -> None:
        def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x * 2, x.detach().argmax()

        x = torch.tensor([1.0, 3.0], device="hpu", requires_grad=True)
        double, largest = torch.hpu.make_graphed_callables(function, (x,))(x)
        assert (double.requires_grad, largest.requires_grad) == (True, False)
        double.sum().backward()
        assert (largest.item(), x.grad.tolist()) == (1, [2, 2])  # type: ignore[union-attr]

    def test_unused_inputs_have_no_gradient_where_they_are_allowed(self) -> None:
        class Half(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.used, self.unused = nn.Linear(2, 2), nn.Linear(2, 2)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.used(x)

        x = torch.ones(1, 2, device="hpu")
        module = torch.hpu.make_graphed_callables(Half().to("hpu"), (x,), allow_unused_input=True)
        module(x).sum().backward()
        assert module.used.weight.grad is not None
        assert module.unused.weight.grad is None

    def test_asynchronous_replays_do_not_wait_for_the_launch(self) -> None:
        x = torch.ones(4, device="hpu")
        line = runtime.card().timeline
        ahead = []
        for asynchronous in (False, True):
            function = torch.hpu.make_graphed_callables(lambda x: x * 3, (x.clone(),), asynchronous=asynchronous)
            torch.hpu.synchronize()
            assert function(x).tolist() == [3.0] * 4
            torch.hpu.synchronize()
            function(x)
            ahead.append(line.launcher - line.main)
        assert ahead == pytest.approx([0.0, line.spec.host.graph_replay_s])


@dataclass
class Answer:
    logits: torch.Tensor
    label: str


def test_dataclasses_and_ordered_dictionaries_come_back() -> None:
    class Model(nn.Linear):
        def forward(self, x: torch.Tensor, *more: torch.Tensor, **named: torch.Tensor) -> Any:  # type: ignore[override]
            logits = super().forward(x)
            return Answer(logits, "kept"), OrderedDict(sum=sum(more, logits), named=named["y"] * 2)

    cached = torch.hpu.ModuleCacher()(Model(2, 2).to("hpu"))
    for value in (1.0, 2.0):
        x = torch.full((1, 2), value, device="hpu")
        answer, rest = cached(x, x, x, y=x)
        assert isinstance(answer, Answer)
        assert answer.label == "kept"
        assert torch.allclose((rest["sum"] - answer.logits).cpu(), torch.full((1, 2), 2 * value))
        assert rest["named"].tolist() == [[2 * value] * 2]
