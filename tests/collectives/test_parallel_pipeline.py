"""Pipeline parallelism on cards: stages on different ranks, activations and gradients by send and recv."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    SplitPoint,
    pipeline,
)
from torch.nn.functional import cross_entropy

from .parallel_models import PER_RANK, STEPS, Net, assert_close, batches, make_net, reference, sgd
from .rank_pool import RankPool

MICRO_BATCHES = 4


def pieces(model: Net) -> list[nn.Module]:
    return [
        nn.Sequential(model.first, nn.ReLU()),
        model.middle,
        nn.ReLU(),
        model.last,
    ]


def assert_own(model: Net, own: nn.Module, size: int) -> None:
    """The parameters of the rank's own stage are the reference's."""
    expected, mine = reference(size).parameters, {id(parameter) for parameter in own.parameters()}
    names = [name for name, parameter in model.named_parameters() if id(parameter) in mine]
    named = dict(model.named_parameters())
    assert_close([named[name] for name in names], [expected[name] for name in names])


def drive(rank: int, size: int, schedule: Any, step: int) -> float | None:
    """One step; the loss at the last rank."""
    features, labels = batches(size)
    losses: list[torch.Tensor] = []
    if rank == 0:
        schedule.step(features[step].to("hpu"))
    elif rank == size - 1:
        schedule.step(target=labels[step].to("hpu"), losses=losses)
        return torch.stack(losses).mean().item()
    else:
        schedule.step()
    return None


def pipes(rank: int, size: int, kind: Any) -> None:
    model = make_net()
    parts = pieces(model)
    length = len(parts) // size
    own = nn.Sequential(*parts[length * rank : length * rank + length])
    schedule = kind(PipelineStage(own, rank, size, torch.device("hpu")), MICRO_BATCHES, loss_fn=cross_entropy)
    optimizer = sgd(own.parameters()) if list(own.parameters()) else None
    losses = []
    for step in range(STEPS):
        if optimizer is not None:
            optimizer.zero_grad()
        losses.append(drive(rank, size, schedule, step))
        if optimizer is not None:
            optimizer.step()
    if rank == size - 1:
        assert losses == pytest.approx(reference(size).losses, rel=1e-4)
    assert_own(model, own, size)


@pytest.mark.parametrize("kind", (ScheduleGPipe, Schedule1F1B))
def test_two_stages(pair: RankPool, kind: Any) -> None:
    pair.run(pipes, kind)


def test_four_stages(four: RankPool) -> None:
    four.run(pipes, Schedule1F1B)


def interleaves(rank: int, size: int, kind: Any) -> None:
    model = make_net()
    parts = pieces(model)
    own = parts[rank::size]
    stages = [PipelineStage(part, rank + size * k, len(parts), torch.device("hpu")) for k, part in enumerate(own)]
    schedule = kind(stages, MICRO_BATCHES, loss_fn=cross_entropy)
    optimizer = sgd([parameter for part in own for parameter in part.parameters()])
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        losses.append(drive(rank, size, schedule, step))
        optimizer.step()
    if rank == size - 1:
        assert losses == pytest.approx(reference(size).losses, rel=1e-4)
    assert_own(model, nn.ModuleList(own), size)


@pytest.mark.parametrize("kind", (ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble))
def test_two_stages_on_each_rank(lazy_pair: RankPool, kind: Any) -> None:
    lazy_pair.run(interleaves, kind)


def splits(rank: int, size: int) -> None:
    model = make_net()
    features, _ = batches(size)
    sample = features[0, : PER_RANK * size // MICRO_BATCHES].to("hpu")
    piped = pipeline(model, (sample,), split_spec={"last": SplitPoint.BEGINNING})
    stage = piped.build_stage(rank, torch.device("hpu"))
    loss = drive(rank, size, ScheduleGPipe(stage, MICRO_BATCHES, loss_fn=cross_entropy), 0)
    if rank == size - 1:
        assert loss == pytest.approx(reference(size).losses[0], rel=1e-4)


def test_a_model_that_is_split_by_tracing(lazy_pair: RankPool) -> None:
    lazy_pair.run(splits)


def sends(rank: int, size: int) -> None:
    model = make_net()
    features, labels = batches(size)
    own = nn.ModuleList([model.first, model.middle] if rank == 0 else [model.last])
    optimizer = sgd(own.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        if rank == 0:
            hidden = torch.relu(model.middle(torch.relu(model.first(features[step].to("hpu")))))
            dist.send(hidden.detach(), 1)
            gradient = torch.empty_like(hidden)
            dist.recv(gradient, 1)
            hidden.backward(gradient)
        else:
            hidden = torch.empty(features.shape[1], 16, device="hpu")
            dist.recv(hidden, 0)
            hidden.requires_grad_()
            cross_entropy(model.last(hidden), labels[step].to("hpu")).backward()
            dist.send(hidden.grad, 0)
        optimizer.step()
    assert_own(model, own, size)


def test_plain_send_and_recv(pair: RankPool) -> None:
    pair.run(sends)
