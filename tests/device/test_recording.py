"""Lazy mode: what is recorded, what ends a graph, and that the numbers are those of eager execution."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import habana_frameworks.torch.core as htcore
from device.backend import runtime
from device.card import current_card
from habana_frameworks.torch.hpu.metrics import metric_global


def recorded() -> int:
    return int(runtime.bridge().recorded())


def compiled() -> int:
    torch.hpu.synchronize()
    metric = metric_global("graph_compilation")
    assert metric is not None
    return int(dict(metric.stats())["TotalNumber"])


def fresh() -> None:
    """No graph is pending."""
    torch.hpu.synchronize()


def test_operators_wait_until_a_step_mark() -> None:
    fresh()
    x = torch.ones(3).to("hpu")
    assert recorded() == 0  # a copy to the card is no graph
    y = (x + 1) * 2
    assert recorded() == 2
    htcore.mark_step()
    assert recorded() == 0
    assert y.cpu().tolist() == [4, 4, 4]


def test_views_record_nothing() -> None:
    fresh()
    x = torch.ones(4, 6).to("hpu")
    x.t()[1:3].unfold(0, 2, 1)
    x[1:].view(-1)
    x.permute(1, 0).expand(2, 6, 4).select(0, 1).diagonal()
    assert recorded() == 0


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.sum().item(),
        lambda t: t.cpu(),
        lambda t: t.tolist(),
        lambda t: str(t),
        lambda t: t.nonzero(),
        lambda t: t[t > 0],
        lambda t: bool((t > 0).all()),
        lambda t: torch.hpu.synchronize(),
        lambda t: torch.unique(t),
        lambda t: t.equal(t),
    ],
    ids=["item", "cpu", "tolist", "print", "nonzero", "mask", "bool", "synchronize", "unique", "equal"],
)
def test_a_read_ends_the_graph(read) -> None:
    fresh()
    t = torch.tensor([1.0, -2.0, 3.0]).to("hpu") * 2
    assert recorded() == 1
    read(t)
    assert not runtime.bridge().pending(t)


def test_a_copy_to_the_card_ends_the_graph_only_where_its_destination_is_in_it() -> None:
    fresh()
    x = torch.zeros(3).to("hpu")
    y = x + 1
    other = torch.ones(3).to("hpu")
    assert recorded() == 1
    x.copy_(torch.full((3,), 5.0))
    assert recorded() == 0
    assert y.tolist() == [1, 1, 1]
    assert x.tolist() == [5, 5, 5]
    assert other.tolist() == [1, 1, 1]


def test_same_shapes_compile_once() -> None:
    fresh()
    before = compiled()
    for step in range(5):
        x = torch.full((7,), float(step)).to("hpu")
        assert ((x * 3 + 1).sum()).item() == 7 * (3 * step + 1)
    assert compiled() == before + 1


@pytest.mark.parametrize(
    "body",
    [
        lambda x, s: x * s,
        lambda x, s: x / s,
        lambda x, s: x.add(x, alpha=s),
        lambda x, s: x + s,
        lambda x, s: x.addcmul(x, x, value=s),
        lambda x, s: x.addcdiv(x, x, value=s),
        lambda x, s: (x > s).float(),
    ],
    ids=["mul", "div", "alpha", "add", "addcmul", "addcdiv", "compare"],
)
def test_a_new_scalar_that_travels_as_a_tensor_does_not_compile(body) -> None:
    host = torch.tensor([1.5, 2.5, 4.0])
    results = []
    for scalar in (2.0, 3.0, 5.0):
        results.append((body(host.to("hpu"), scalar).cpu(), body(host, scalar)))
        if scalar == 2.0:
            before = compiled()
    assert compiled() == before
    for got, wanted in results:
        assert torch.equal(got, wanted)


def test_alpha_of_one_is_another_graph() -> None:
    def run(alpha: float) -> None:
        x = torch.ones(11).to("hpu")
        x.add(x, alpha=alpha).cpu()

    run(2.0)
    before = compiled()
    run(1.0)
    assert compiled() == before + 1


def test_keeping_a_tensor_alive_changes_the_graph() -> None:
    def run(keep: bool) -> torch.Tensor | None:
        x = torch.ones(13).to("hpu")
        middle = x * 2
        last = middle + 1
        if not keep:
            del middle
        htcore.mark_step()
        assert last.sum().item() == 39
        return middle if keep else None

    run(keep=False)
    before = compiled()
    run(keep=False)
    assert compiled() == before
    kept = run(keep=True)
    assert compiled() == before + 1
    assert kept is not None and kept.tolist() == [2.0] * 13


def test_storage_offset_is_part_of_the_key() -> None:
    x = torch.arange(24.0).reshape(4, 6).to("hpu")
    values, counts = [], []
    for column in range(6):
        values.append((x[:, column] * 3).sum().item())
        counts.append(compiled())
    assert values == [12.0 * column + 108 for column in range(6)]
    assert counts == list(range(counts[0], counts[0] + 6))


def training(device: str, mode: str, steps: int = 6, width: int = 16) -> list[torch.Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, width), nn.LayerNorm(width), nn.Tanh(), nn.Linear(width, 3)).to(device)
    optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.AdamW, "adadelta": torch.optim.Adadelta}[mode](
        net.parameters(), lr=0.1
    )
    x = torch.linspace(-1, 1, 60).reshape(10, 6).to(device)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(net(x), torch.arange(10, device=device) % 3).backward()
        optimizer.step()
        if device == "hpu":
            htcore.mark_step()
    return [parameter.detach().cpu() for parameter in net.parameters()]


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adadelta"])
def test_training_is_bit_identical_to_the_cpu(optimizer: str) -> None:
    for got, wanted in zip(training("hpu", optimizer), training("cpu", optimizer), strict=True):
        assert torch.equal(got, wanted)


def test_first_step_and_the_later_ones_are_two_graphs() -> None:
    before = compiled()
    training("hpu", "adam", steps=1, width=17)
    after_one = compiled()
    training("hpu", "adam", steps=9, width=17)
    assert after_one - before == 1
    assert compiled() - after_one == 1


@pytest.mark.parametrize("every", [1, 2, 3, 7])
def test_the_place_of_step_marks_never_changes_numbers(every: int) -> None:
    def train(interval: int) -> list[torch.Tensor]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)).to("hpu")
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)
        x = torch.linspace(-1, 1, 60).reshape(10, 6).to("hpu")
        calls = 0

        def maybe() -> None:
            nonlocal calls
            calls += 1
            if interval and calls % interval == 0:
                htcore.mark_step()

        for _ in range(4):
            optimizer.zero_grad()
            maybe()
            hidden = net[1](net[0](x))
            maybe()
            loss = net[2](hidden).pow(2).mean()
            maybe()
            loss.backward()
            maybe()
            optimizer.step()
            maybe()
        return [parameter.detach().cpu() for parameter in net.parameters()]

    for got, wanted in zip(train(every), train(0), strict=True):
        assert torch.equal(got, wanted)


def test_threads_share_the_card_without_mixing_up_results() -> None:
    failures = []

    def work(number: int) -> None:
        for _ in range(10):
            x = torch.full((5,), float(number), device="hpu", requires_grad=True)
            (x * x).sum().backward()
            if x.grad.cpu().tolist() != [2.0 * number] * 5:
                failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_an_error_of_the_replay_names_the_operator_and_leaves_the_card_usable() -> None:
    x = torch.arange(4.0).to("hpu")
    with pytest.raises(IndexError, match=r"index 99 is out of bounds.*while the card ran aten::index"):
        x[torch.tensor([99]).to("hpu")].cpu()
    assert torch.ones(3).to("hpu").sum().item() == 3


def test_a_tensor_on_the_cpu_is_refused_beside_one_on_the_card() -> None:
    with pytest.raises(RuntimeError, match=r"hpu:0 and cpu"):
        torch.ones(2).to("hpu") + torch.ones(2)
    with pytest.raises(RuntimeError, match=r"hpu:0 and cpu"):
        F.layer_norm(torch.ones(2, 3).to("hpu"), [3], torch.ones(3))


def test_max_compound_op_size_ends_graphs(script) -> None:
    done = script(
        """
        import torch
        from device.card import current_card
        x = torch.ones(3).to("hpu")
        for _ in range(10):
            x = x + 1
        print(current_card().recipes.graphs.hits + current_card().recipes.graphs.misses, x.tolist())
        """,
        PT_HPU_MAX_COMPOUND_OP_SIZE="4",
    )
    assert done.stdout.split(maxsplit=1) == ["2", "[11.0, 11.0, 11.0]\n"]


def test_report_adds_up() -> None:
    training("hpu", "sgd")
    torch.hpu.synchronize()
    card = current_card()
    assert card is not None
    time = card.report()["time"]
    parts = time["host"] + time["compile"] + time["device"] + time["collectives"]
    assert parts == pytest.approx(time["total"], rel=1e-12)
    assert min(time.values()) >= 0
