"""`all_reduce_gradients` (fast_ddp): one buffer, packed and unpacked by recorded graphs, one all-reduce."""

from __future__ import annotations

import copy
import os
import warnings

import pytest
import torch
import torch.distributed as dist
from torch import nn

import habana_frameworks.torch.core as htcore
from collectives import CollectiveError, all_reduce_gradients
from device.backend import runtime

from .parallel_models import BF16, assert_reference, make_net, reference, sgd, train, whole
from .rank_pool import RankPool, all_equal


def is_lazy() -> bool:
    return os.environ["PT_HPU_LAZY_MODE"] == "1"


def averages(
    rank: int, size: int, dtype: torch.dtype, use_hpu_graphs: bool, set_to_none: bool, marks: bool = True
) -> str:
    model = make_net()

    def before_step() -> None:
        all_reduce_gradients(model, fusion_buffer_dtype=dtype, use_hpu_graphs=use_hpu_graphs)
        if marks:
            htcore.mark_step()

    losses = train(model, sgd(model.parameters()), rank, size, size, before_step, set_to_none)
    tolerance = BF16 if dtype == torch.bfloat16 else {}
    return assert_reference(reference(size), losses, whole(model), **tolerance)


def trains(rank: int, size: int) -> list[str]:
    graphs = is_lazy()
    half = averages(rank, size, torch.bfloat16, graphs, set_to_none=False)
    assert averages(rank, size, torch.bfloat16, False, set_to_none=False) == half
    assert averages(rank, size, torch.bfloat16, graphs, set_to_none=False, marks=False) == half
    return [half, averages(rank, size, torch.float32, graphs, set_to_none=False)]


def test_training_equals_one_process(pair: RankPool) -> None:
    assert all_equal(pair.run(trains))


def test_four_ranks(four: RankPool) -> None:
    assert all_equal(four.run(trains))


def replays(rank: int, size: int) -> int:
    """Recipes compiled in steps after the first two."""
    model = make_net()
    gradients = [torch.full_like(parameter, rank + 1.0 + k) for k, parameter in enumerate(model.parameters())]
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        parameter.grad = gradient
    for step in range(4):
        for k, gradient in enumerate(gradients):
            gradient.fill_(rank + 1.0 + k)
        all_reduce_gradients(model)
        htcore.mark_step()
        for k, gradient in enumerate(gradients):
            torch.testing.assert_close(
                gradient.cpu(), torch.full(gradient.shape, (size + 1) / 2 + k), rtol=1e-2, atol=0.0
            )
        if step == 1:
            before = runtime.card().figures()
    after = runtime.card().figures()
    kept = model.__dict__
    assert kept["_all_reduce_fusion_buffer"].dtype == torch.bfloat16
    assert kept["_all_reduce_fusion_buffer"].numel() == sum(parameter.numel() for parameter in model.parameters())
    assert [parameter for parameter, _ in kept["_all_reduce_fusion_entries"]] == list(model.parameters())
    for name in ("pack", "unpack"):
        assert isinstance(kept[f"_all_reduce_gradient_{name}_graph"], torch.hpu.HPUGraph)
    return after["graphs_compiled"] - before["graphs_compiled"]


def test_later_calls_replay(lazy_pair: RankPool) -> None:
    assert lazy_pair.run(replays) == [0, 0]


def zeroed_anew(rank: int, size: int) -> str:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        digest = averages(rank, size, torch.bfloat16, True, set_to_none=True)
    assert any("zero_grad(set_to_none=False)" in str(warning.message) for warning in told)
    assert digest == averages(rank, size, torch.bfloat16, True, set_to_none=False)
    return digest


def test_gradients_that_are_other_tensors_are_recorded_again(lazy_pair: RankPool) -> None:
    assert all_equal(lazy_pair.run(zeroed_anew))


def changes(rank: int, size: int) -> None:
    for graphs in (False, is_lazy()):
        model = make_net()
        model(torch.ones(1, 12, device="hpu")).sum().backward()
        all_reduce_gradients(model, use_hpu_graphs=graphs)
        model.middle.weight.grad = None
        with pytest.raises(NotImplementedError, match="active gradients"):
            all_reduce_gradients(model, use_hpu_graphs=graphs)
    idle = make_net()
    all_reduce_gradients(idle)
    assert idle.__dict__["_all_reduce_fusion_entries"] == []
    idle(torch.ones(1, 12, device="hpu")).sum().backward()
    before = copy.deepcopy(idle.last.bias.grad)
    all_reduce_gradients(idle)
    assert torch.equal(idle.last.bias.grad, before)
    frozen = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1)).to("hpu")
    frozen[0].requires_grad_(False)
    (frozen(torch.ones(1, 3, device="hpu")).sum() * (rank + 1)).backward()
    all_reduce_gradients(frozen, use_hpu_graphs=False)
    assert frozen[1].bias.grad.item() == (size + 1) / 2
    assert frozen[0].weight.grad is None


def test_the_set_of_gradients_must_stay(pair: RankPool) -> None:
    pair.run(changes)


def alone(rank: int, size: int) -> None:
    model = make_net()
    model(torch.ones(1, 12, device="hpu")).sum().backward()
    world, dist.group.WORLD = dist.group.WORLD, None
    try:
        with pytest.raises(CollectiveError, match="init_process_group"):
            all_reduce_gradients(model, use_hpu_graphs=False)
    finally:
        dist.group.WORLD = world


def test_without_a_process_group(lazy_pair: RankPool) -> None:
    lazy_pair.run(alone)
