"""ZeroRedundancyOptimizer, which keeps a part of the optimizer's state on each rank, equals one process."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook import hook_with_zero_step
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from .parallel_models import (
    PER_RANK,
    STEPS,
    adamw,
    assert_close,
    assert_reference,
    batches,
    digest,
    make_net,
    reference,
    train,
    whole,
)
from .rank_pool import RankPool, all_equal


def optimizes(rank: int, size: int) -> list[str]:
    digests = []
    for as_view in (False, True):
        model = make_net()
        parallel = DistributedDataParallel(model, gradient_as_bucket_view=as_view)
        options: dict[str, Any] = {"lr": 0.05, "momentum": 0.9, "parameters_as_bucket_view": as_view}
        optimizer = ZeroRedundancyOptimizer(parallel.parameters(), torch.optim.SGD, **options)
        losses = train(parallel, optimizer, rank, size, size)
        digests.append(assert_reference(reference(size), losses, whole(model)))
    model = make_net()
    parallel = DistributedDataParallel(model)
    optimizer = ZeroRedundancyOptimizer(parallel.parameters(), torch.optim.AdamW, lr=0.01)
    losses = train(parallel, optimizer, rank, size, size)
    digests.append(assert_reference(reference(size, adamw), losses, whole(model)))
    optimizer.consolidate_state_dict(0)
    if rank == 0:
        whole_state = optimizer.state_dict()
        assert len(whole_state["state"]) == len(list(model.parameters()))
        optimizer.load_state_dict(whole_state)
    return digests


def test_state_sharded_over_two_ranks(pair: RankPool) -> None:
    assert all_equal(pair.run(optimizes))


def test_state_sharded_over_four_ranks(four: RankPool) -> None:
    assert all_equal(four.run(optimizes))


def overlaps(rank: int, size: int) -> str:
    """The optimizer's steps run in the hooks of the next backward pass, so the last one is still to come."""
    model, plain = make_net(), make_net("cpu")
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = ZeroRedundancyOptimizer(parallel.parameters(), torch.optim.SGD, overlap_with_ddp=True, lr=0.05)
    parallel.register_comm_hook(None, hook_with_zero_step(allreduce_hook, parallel, optimizer))
    other = torch.optim.SGD(plain.parameters(), lr=0.05)
    features, labels = batches(size)
    mine = slice(PER_RANK * rank, PER_RANK * rank + PER_RANK)
    for step in range(STEPS):
        parallel.zero_grad(set_to_none=False)
        cross_entropy(parallel(features[step, mine].to("hpu")), labels[step, mine].to("hpu")).backward()
        if step >= 2:  # the first two passes only find out the order of the gradients
            other.zero_grad()
            cross_entropy(plain(features[step]), labels[step]).backward()
            other.step()
    assert_close(whole(model).values(), plain.parameters())
    return digest(whole(model).values())


def test_steps_that_overlap_with_the_backward_pass(lazy_pair: RankPool) -> None:
    assert all_equal(lazy_pair.run(overlaps))


def ends_early(rank: int, size: int) -> str:
    model = make_net()
    parallel = DistributedDataParallel(model)
    optimizer = ZeroRedundancyOptimizer(parallel.parameters(), torch.optim.SGD, lr=0.01)
    features, labels = batches(size)
    with Join([parallel, optimizer]):
        for step in range(2 + rank):
            optimizer.zero_grad()
            cross_entropy(parallel(features[step].to("hpu")), labels[step].to("hpu")).backward()
            optimizer.step()
    return digest(whole(model).values())


def test_join(lazy_pair: RankPool) -> None:
    assert all_equal(lazy_pair.run(ends_early))
