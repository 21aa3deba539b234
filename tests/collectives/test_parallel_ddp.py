"""DistributedDataParallel's options and communication hooks on cards equal one process on the whole batch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.distributed.optim import _apply_optimizer_in_backward
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from .parallel_models import (
    BF16,
    PER_RANK,
    STEPS,
    Net,
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

SMALL = 0.0005  # megabytes: several buckets for a small model
OPTIONS: list[dict[str, Any]] = [
    {},
    {"gradient_as_bucket_view": True},
    {"static_graph": True},
    {"static_graph": True, "gradient_as_bucket_view": True},
    {"find_unused_parameters": True, "bucket_cap_mb": 25},
    {"broadcast_buffers": False},
    {"skip_all_reduce_unused_params": True, "find_unused_parameters": True},
]


def run(rank: int, size: int, hook: Callable[[DistributedDataParallel], None] | None, **options: Any) -> Any:
    model = make_net()
    parallel = DistributedDataParallel(model, **{"bucket_cap_mb": SMALL, **options})
    if hook is not None:
        hook(parallel)
    losses = train(parallel, sgd(parallel.parameters()), rank, size, size)
    return losses, whole(model)


def with_options(rank: int, size: int) -> list[str]:
    expected = reference(size)
    return [assert_reference(expected, *run(rank, size, None, **options)) for options in OPTIONS]


def test_options(pair: RankPool) -> None:
    assert all_equal(pair.run(with_options))


# -- communication hooks -----------------------------------------------------------------------------------


def allreduce(parallel: DistributedDataParallel) -> None:
    parallel.register_comm_hook(None, default_hooks.allreduce_hook)


def fp16(parallel: DistributedDataParallel) -> None:
    parallel.register_comm_hook(None, default_hooks.fp16_compress_hook)


def bf16(parallel: DistributedDataParallel) -> None:
    parallel.register_comm_hook(None, default_hooks.bf16_compress_hook)


def bf16_wrapped(parallel: DistributedDataParallel) -> None:
    parallel.register_comm_hook(None, default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook))


def builtin_allreduce(parallel: DistributedDataParallel) -> None:
    parallel._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)


def builtin_fp16(parallel: DistributedDataParallel) -> None:
    parallel._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)


def average(state: None, bucket):  # DDP looks at annotations and takes no texts for them
    gradient = bucket.buffer()

    def divide(future):
        return future.value()[0] / dist.get_world_size()

    return dist.all_reduce(gradient, async_op=True).get_future().then(divide)


def own(parallel: DistributedDataParallel) -> None:
    parallel.register_comm_hook(None, average)


def power_sgd_of_full_rank(parallel: DistributedDataParallel) -> None:
    # Three collectives a bucket, each issued by the callback of the one before. Rank 16 of 16 loses nothing.
    state = PowerSGDState(None, matrix_approximation_rank=16, start_powerSGD_iter=2, min_compression_rate=0.1)
    parallel.register_comm_hook(state, powerSGD_hook)


def local_sgd_of_one_group(parallel: DistributedDataParallel) -> None:
    state = PostLocalSGDState(process_group=None, subgroup=dist.group.WORLD, start_localSGD_iter=2)
    parallel.register_comm_hook(state, post_localSGD_hook)


HOOKS: list[tuple[Callable[[DistributedDataParallel], None], dict[str, float]]] = [
    (allreduce, {}),
    (builtin_allreduce, {}),
    (own, {}),
    (local_sgd_of_one_group, {}),
    (power_sgd_of_full_rank, {"rtol": 1e-2, "atol": 1e-3}),
    (fp16, BF16),
    (builtin_fp16, BF16),
    (bf16, BF16),
    (bf16_wrapped, BF16),
]


def with_hooks(rank: int, size: int) -> list[str]:
    expected = reference(size)
    return [assert_reference(expected, *run(rank, size, hook), **tolerance) for hook, tolerance in HOOKS]


def test_communication_hooks(pair: RankPool) -> None:
    assert all_equal(pair.run(with_hooks))


def test_a_hook_that_issues_collectives_from_callbacks_has_one_order_on_all_ranks(four: RankPool) -> None:
    assert all_equal(four.run(with_hooks))


def steps_in_backward(rank: int, size: int) -> str:
    model = make_net()
    _apply_optimizer_in_backward(torch.optim.SGD, model.parameters(), {"lr": 0.05, "momentum": 0.9})
    parallel = DistributedDataParallel(model, bucket_cap_mb=SMALL)
    features, labels = batches(size)
    mine = slice(PER_RANK * rank, PER_RANK * rank + PER_RANK)
    for step in range(STEPS):
        cross_entropy(parallel(features[step, mine].to("hpu")), labels[step, mine].to("hpu")).backward()
    return assert_reference(reference(size), None, whole(model))


def test_an_optimizer_that_steps_while_the_backward_pass_goes_on(pair: RankPool) -> None:
    assert all_equal(pair.run(steps_in_backward))


# -- gradients that accumulate, inputs that end, layers that compute again -----------------------------------


def accumulates(rank: int, size: int) -> None:
    for options in ({}, {"gradient_as_bucket_view": True}):
        model, plain = make_net(), make_net("cpu")
        parallel = DistributedDataParallel(model, **options)
        optimizers = sgd(model.parameters()), sgd(plain.parameters())
        for seed in range(3):
            inputs = torch.randn(2, size, 5, 12, generator=torch.Generator().manual_seed(seed))
            with parallel.no_sync():
                parallel(inputs[0, rank].to("hpu")).square().sum().backward()
            parallel(inputs[1, rank].to("hpu")).square().sum().backward()
            (plain(inputs).square().sum() / size).backward()
            gradients = zip(model.parameters(), plain.parameters(), strict=True)
            assert_close(*zip(*((ours.grad, theirs.grad) for ours, theirs in gradients), strict=True), atol=1e-4)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()


def test_no_sync(pair: RankPool) -> None:
    pair.run(accumulates)


def ends_early(rank: int, size: int) -> str:
    model = make_net()
    parallel = DistributedDataParallel(model, bucket_cap_mb=SMALL)
    optimizer = sgd(model.parameters())
    features, labels = batches(size)
    with parallel.join():
        for step in range(2 + rank):
            optimizer.zero_grad()
            cross_entropy(parallel(features[step].to("hpu")), labels[step].to("hpu")).backward()
            optimizer.step()
    with pytest.raises(RuntimeError, match="exhausted"), parallel.join(throw_on_early_termination=True):
        for step in range(1 + rank):
            parallel(features[step].to("hpu")).sum().backward()
    return digest(whole(model).values())


def test_join_of_ranks_with_inputs_of_different_lengths(lazy_pair: RankPool) -> None:
    assert all_equal(lazy_pair.run(ends_early))


class Recomputing(Net):
    def forward(self, features: torch.Tensor) -> torch.Tensor:
        hidden = checkpoint(lambda x: torch.relu(self.middle(torch.relu(self.first(x)))), features, use_reentrant=False)
        return self.last(hidden)


def recomputes(rank: int, size: int) -> str:
    torch.manual_seed(3)
    model = Recomputing().to("hpu")
    parallel = DistributedDataParallel(model, static_graph=True)
    losses = train(parallel, sgd(model.parameters()), rank, size, size)
    return assert_reference(reference(size), losses, whole(model))


def test_activation_checkpointing(pair: RankPool) -> None:
    assert all_equal(pair.run(recomputes))


# -- batch normalization over all ranks --------------------------------------------------------------------


def normalizes(rank: int, size: int, dtype: torch.dtype) -> str:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(2, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 2))
    model = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain)).to("hpu")
    parallel = DistributedDataParallel(model)
    optimizers = sgd(model.parameters()), sgd(plain.parameters())
    counts = [3 + 2 * r for r in range(size)]  # samples of each rank
    end = sum(counts[: rank + 1])
    for seed in range(3):
        inputs = torch.randn(sum(counts), 2, 6, 6, generator=torch.Generator().manual_seed(seed))
        for optimizer in optimizers:
            optimizer.zero_grad()
        with torch.autocast("hpu", dtype=dtype, enabled=dtype != torch.float32):
            # DDP divides by the number of ranks; the plain mean weighs samples alike.
            loss = parallel(inputs[end - counts[rank] : end].to("hpu")).float().square().sum() * size / sum(counts)
        loss.backward()
        (plain(inputs).square().sum() / sum(counts)).backward()
        for optimizer in optimizers:
            optimizer.step()
    tolerance = {"rtol": 1e-3, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 5e-2, "atol": 2e-2}
    assert_close(model.parameters(), plain.parameters(), **tolerance)
    assert_close(model[1].buffers(), plain[1].buffers(), **tolerance)
    return digest(model.parameters())


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_sync_batch_norm_with_batches_of_different_sizes(pair: RankPool, dtype: torch.dtype) -> None:
    assert all_equal(pair.run(normalizes, dtype))


# -- data --------------------------------------------------------------------------------------------------


def reads(rank: int, size: int) -> list[int]:
    dataset = TensorDataset(torch.arange(10))
    sampler = DistributedSampler(dataset, seed=2)
    sampler.set_epoch(1)
    mine = torch.cat([batch for (batch,) in DataLoader(dataset, batch_size=2, sampler=sampler)]).to("hpu")
    gathered = [torch.empty_like(mine) for _ in range(size)]
    dist.all_gather(gathered, mine)
    return torch.cat(gathered).tolist()


def test_distributed_sampler_reads_every_sample(lazy_pair: RankPool) -> None:
    values = lazy_pair.run(reads)
    assert all_equal(values)
    assert sorted(values[0]) == list(range(10))
