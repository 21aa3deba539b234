"""HPU graphs under the strict switch: what a replay overwrites or does not see is an error where it is used."""

from __future__ import annotations

import pytest

from ..conftest import Script

PRELUDE = """
import warnings
import pytest
import torch
from torch import nn
from device.strict import StrictError

class Square(nn.Module):
    factor = 1
    def forward(self, x):
        return x * x * self.factor

def refused(use, words="has overwritten"):
    with pytest.raises(StrictError, match=words):
        use()

first, second = torch.tensor([2.0], device="hpu"), torch.tensor([5.0], device="hpu")
"""


@pytest.fixture
def strict(script: Script):
    def run(code: str) -> None:
        script(PRELUDE + code, HPUCLUSTER_STRICT="1")

    return run


def test_a_result_that_the_next_call_overwrites(strict) -> None:
    strict("""
module = torch.hpu.wrap_in_hpu_graph(Square().to("hpu"))
with torch.no_grad():
    one = module(first)
    view, kept = one[:1], one.clone()
    two = module(second)
    for use in (one.item, one.cpu, lambda: one + 1, lambda: torch.stack([two, one]), lambda: print(one), view.sum):
        refused(use)
    assert two.item() == 25 and kept.item() == 4 and one.shape == (1,) and one.device.type == "hpu"
    one.fill_(3)  # of the caller's own will
    assert one.item() == 3
    for number in (3.0, 4.0):  # used before the next call, as is usual
        result = module(torch.tensor([number], device="hpu"))
        assert result.item() == number**2
""")


def test_an_input_that_a_later_call_overwrites(strict) -> None:
    strict("""
module = torch.hpu.wrap_in_hpu_graph(Square().to("hpu"))
with torch.no_grad():
    module(first)
    assert module(first).item() == 4  # itself: nothing is copied
    module(second)
    refused(first.item)
    refused(lambda: module(first), "a call of a tensor")
    assert second.item() == 5
    first.copy_(second * 2)
    assert module(first).item() == 100
""")


def test_without_the_tensor_cache_inputs_are_not_overwritten(strict) -> None:
    strict("""
module = torch.hpu.wrap_in_hpu_graph(Square().to("hpu"), disable_tensor_cache=True)
with torch.no_grad():
    one = module(first)
    two = module(second)
    assert first.item() == 2 and two.item() == 25
    refused(one.item)
""")


def test_losses_of_a_cached_module_that_are_kept(strict) -> None:
    strict("""
model = torch.hpu.ModuleCacher(max_graphs=2)(nn.Sequential(nn.Linear(3, 1)).to("hpu"))
losses, kept = [], []
for step in range(3):
    loss = model(torch.ones(2, 3, device="hpu") * step)
    loss.sum().backward()
    losses.append(loss.detach())
    kept.append(loss.detach().clone())
assert losses[-1].sum().isfinite() and torch.stack(kept).isfinite().all()
refused(losses[0].sum)
refused(lambda: torch.stack(losses))
""")


def test_outputs_of_graphed_callables(strict) -> None:
    strict("""
linear = nn.Linear(3, 1).to("hpu")
graphed = torch.hpu.make_graphed_callables(linear, (torch.ones(2, 3, device="hpu"),))
one = graphed(torch.ones(2, 3, device="hpu"))
one.sum().backward()
two = graphed(torch.zeros(2, 3, device="hpu"))
refused(one.sum)
two.sum().backward()
""")


def test_what_autograd_kept_of_an_overwritten_result(strict) -> None:
    strict("""
module = torch.hpu.wrap_in_hpu_graph(Square().to("hpu"))
with torch.no_grad():
    one = module(first)
weight = torch.ones(1, device="hpu", requires_grad=True)
loss = (weight * one).sum()
with torch.no_grad():
    module(second)
with pytest.raises(RuntimeError, match="modified by an inplace operation"):
    loss.backward()
""")


def test_attributes_that_change_after_the_capture(strict) -> None:
    strict("""
module = torch.hpu.wrap_in_hpu_graph(nn.Sequential(Square(), nn.Dropout(0.5)).to("hpu").eval())
with torch.no_grad():
    module(first)
    module.train()
    refused(lambda: module(first), "training was False when the HPU graph was captured and is True")
    module.eval()
    assert module(first).item() == 4
    module[0].factor = 2
    assert module(first).item() == 4  # it had none of its own when it was captured
    module[1].p = 0.25
    refused(lambda: module(first), "1.p was 0.5")
    module.clear_cache()
    assert module(first).item() == 8
""")


def test_without_the_switch_it_is_as_on_the_card(script: Script) -> None:
    script(
        PRELUDE
        + """
module = torch.hpu.wrap_in_hpu_graph(Square().to("hpu"))
with torch.no_grad():
    one = module(first)
    assert module(second) is one and one.item() == 25 and first.item() == 5
    module.train(not module.training)
    assert module(first).item() == 25
""",
        HPUCLUSTER_STRICT="0",
    )
