"""DTensor and tensor parallelism on cards: layers divided over ranks compute what whole ones do."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_gather_tensor_autograd
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, rand
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn.functional import cross_entropy, dropout

from .parallel_models import (
    Optimizer,
    adamw,
    assert_close,
    assert_reference,
    batches,
    digest,
    make_net,
    reference,
    sgd,
    train,
    whole,
)
from .rank_pool import RankPool, all_equal


def plan() -> dict[str, Any]:
    return {
        "first": ColwiseParallel(),
        "middle": RowwiseParallel(output_layouts=Shard(0)),
        "last": ColwiseParallel(input_layouts=Shard(0), output_layouts=Replicate()),
    }


def divides(rank: int, size: int) -> list[str]:
    digests = []
    cases: list[tuple[Optimizer, float | None]] = [(sgd, 0.5), (adamw, None)]
    for optimizer, clip in cases:
        model = parallelize_module(make_net(), init_device_mesh("hpu", (size,)), plan())

        def before_step(model: nn.Module = model, clip: float | None = clip) -> None:
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)

        losses = train(model, optimizer(model.parameters()), 0, 1, size, before_step)
        digests.append(assert_reference(reference(size, optimizer, clip), losses, whole(model)))
    return digests


def test_tensor_parallel_by_two(pair: RankPool) -> None:
    assert all_equal(pair.run(divides))


def test_tensor_parallel_by_four(four: RankPool) -> None:
    assert all_equal(four.run(divides))


def divides_and_shards(rank: int, size: int) -> str:
    mesh = init_device_mesh("hpu", (2, 2), mesh_dim_names=("data", "tensor"))
    model = parallelize_module(make_net(), mesh["tensor"], plan())
    for layer in (*model.layers, model):
        fully_shard(layer, mesh=mesh["data"])
    losses = train(
        model,
        sgd(model.parameters()),
        rank // 2,
        2,
        size,
        lambda: nn.utils.clip_grad_norm_(model.parameters(), 0.5),
    )
    return assert_reference(reference(size, clip=0.5), losses, whole(model))


def test_tensor_parallel_within_fully_shard(four: RankPool) -> None:
    assert all_equal(four.run(divides_and_shards))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(self.norm(hidden))))


def divides_the_sequence(rank: int, size: int) -> None:
    torch.manual_seed(0)
    plain = Block()
    mesh = init_device_mesh("hpu", (size,))
    layout = {
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    }
    model = parallelize_module(copy.deepcopy(plain).to("hpu"), mesh, layout)
    hidden = torch.randn(2, 4 * size, 8)
    optimizers = sgd(model.parameters()), sgd(plain.parameters())
    for _ in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        # The mean of shards is a mean of means: an average over ranks, which HCCL does not have.
        loss = model(distribute_tensor(hidden.to("hpu"), mesh, [Shard(1)])).square().mean()
        loss.full_tensor().backward()
        plain(hidden).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
    assert_close(whole(model).values(), plain.parameters())


def test_sequence_parallel(lazy_pair: RankPool) -> None:
    lazy_pair.run(divides_the_sequence)


def divides_the_loss(rank: int, size: int) -> None:
    layout = {"last": ColwiseParallel(use_local_output=False)}
    model = parallelize_module(make_net(), init_device_mesh("hpu", (size,)), layout)
    plain = make_net("cpu")
    features, labels = (tensor[0] for tensor in batches(size))
    with loss_parallel():
        cross_entropy(model(features.to("hpu")), labels.to("hpu")).backward()
    cross_entropy(plain(features), labels).backward()
    assert_close(
        [model.last.weight.grad.full_tensor(), model.first.weight.grad],
        [plain.last.weight.grad, plain.first.weight.grad],
    )


def test_loss_parallel(lazy_pair: RankPool) -> None:
    lazy_pair.run(divides_the_loss)


def computes(rank: int, size: int) -> None:
    mesh = init_device_mesh("hpu", (size,))
    left, right = torch.randn(6, 8), torch.randn(8, 10)
    placements = (Shard(0), Shard(1), Replicate())
    for here, there in itertools.product(placements, placements):
        one = distribute_tensor(left.to("hpu"), mesh, [here])
        other = distribute_tensor(right.to("hpu"), mesh, [there])
        torch.testing.assert_close((one @ other).full_tensor().cpu(), left @ right, rtol=1e-4, atol=1e-5)
        assert torch.equal(one.redistribute(mesh, [there]).full_tensor().cpu(), left)
    rows = distribute_tensor(left.to("hpu"), mesh, [Shard(0)])
    for name in ("mean", "sum", "amax"):
        torch.testing.assert_close(getattr(rows, name)().full_tensor().cpu(), getattr(left, name)())
    mine = torch.full((2 * size,), rank + 1.0, device="hpu")
    average = DTensor.from_local(mine, mesh, [Partial("avg")])
    assert average.full_tensor().tolist() == [(size + 1) / 2] * (2 * size)
    assert average.redistribute(mesh, [Shard(0)]).to_local().tolist() == [(size + 1) / 2] * 2
    odd = torch.arange(15.0).reshape(5, 3)
    assert torch.equal(distribute_tensor(odd.to("hpu"), mesh, [Shard(0)]).full_tensor().cpu(), odd)
    leaf = torch.ones(4, device="hpu", requires_grad=True)
    all_gather_tensor_autograd(leaf, 0, dist.group.WORLD).sum().backward()
    assert leaf.grad.tolist() == [size] * 4


def test_dtensor(pair: RankPool) -> None:
    pair.run(computes)


def draws(rank: int, size: int) -> str:
    mesh = init_device_mesh("hpu", (size,))
    torch.manual_seed(5)
    shards = rand(8 * size, 64, device_mesh=mesh, placements=[Shard(0)]).full_tensor().cpu()
    assert all(not torch.equal(*pair) for pair in itertools.combinations(shards.split(8), 2))
    again = rand(8 * size, 64, device_mesh=mesh, placements=[Shard(0)]).full_tensor().cpu()
    between = torch.rand(8, 64, device="hpu").cpu()
    replicas = rand(8, 64, device_mesh=mesh, placements=[Replicate()]).to_local().cpu()
    dropped = dropout(distribute_tensor(torch.ones(8 * size, 64, device="hpu"), mesh, [Shard(0)])).full_tensor().cpu()
    assert len({digest([t]) for t in (*shards.split(8), *again.split(8), between, replicas, *dropped.split(8))}) == (
        3 * size + 2
    )
    torch.manual_seed(5)
    assert torch.equal(rand(8 * size, 64, device_mesh=mesh, placements=[Shard(0)]).full_tensor().cpu(), shards)
    return digest([shards, again, between, replicas, dropped])


def test_random_numbers_differ_between_shards_and_not_between_replicas(pair: RankPool) -> None:
    assert all_equal(pair.run(draws))
