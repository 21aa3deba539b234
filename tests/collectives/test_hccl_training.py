"""Unmodified DistributedDataParallel on the process group equals one process on the whole batch."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from .hccl_ranks import run_ranks

STEPS = 5


class Net(nn.Module):
    """Convolution, a boolean and an integer buffer, and a branch that can stay unused."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.head = nn.Linear(4 * 36, 10)
        self.spare = nn.Linear(4 * 36, 10)
        self.register_buffer("mask", torch.arange(10) != 3)
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def forward(self, images: torch.Tensor, use_spare: bool = False) -> torch.Tensor:
        features = torch.relu(self.conv(images)).flatten(1)
        return (self.spare if use_spare else self.head)(features) * self.mask


def make(device: str, size: int) -> tuple[Net, torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    model = Net()
    images = torch.randn(STEPS, 4 * size, 1, 8, 8)
    labels = torch.randint(0, 10, (STEPS, 4 * size))
    return model.to(device), images, labels


def reference(size: int) -> list[torch.Tensor]:
    model, images, labels = make("cpu", size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        cross_entropy(model(images[step], step == 2), labels[step]).backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def train(rank: int, size: int, device: str, options: dict[str, bool]) -> list[bytes]:
    model, images, labels = make(device, size)
    if rank:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(1.0)  # DDP hands out rank 0's parameters
    parallel = DistributedDataParallel(model, find_unused_parameters=True, bucket_cap_mb=0.002, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        mine = slice(4 * rank, 4 * rank + 4)
        optimizer.zero_grad()
        cross_entropy(parallel(images[step, mine].to(device), step == 2), labels[step, mine].to(device)).backward()
        optimizer.step()
    results = [parameter.detach().cpu() for parameter in model.parameters()]
    for ours, theirs in zip(results, reference(size), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    return [result.numpy().tobytes() for result in results]


@pytest.mark.parametrize("size", (1, 2, 3))
def test_ddp_equals_one_process_on_the_whole_batch(size: int) -> None:
    outcomes = run_ranks(size, train, "cpu", {})
    assert all(outcome.value == outcomes[0].value for outcome in outcomes)


def test_ddp_with_gradients_as_views_of_the_buckets() -> None:
    outcomes = run_ranks(2, train, "cpu", {"gradient_as_bucket_view": True})
    assert outcomes[0].value == outcomes[1].value


@pytest.mark.parametrize("lazy", ("1", "0"))
def test_ddp_on_cards(lazy: str) -> None:
    outcomes = run_ranks(2, train, "hpu", {}, backend="hccl", PT_HPU_LAZY_MODE=lazy)
    assert outcomes[0].value == outcomes[1].value


def differs(rank: int, size: int) -> str:
    try:
        DistributedDataParallel(nn.Linear(3, 4 + rank))
    except RuntimeError as error:
        return str(error)
    return "no error"


def test_models_of_different_shapes_are_told_apart() -> None:
    for outcome in run_ranks(2, differs):
        assert "no error" not in outcome.value


def accumulates(rank: int, size: int) -> None:
    torch.manual_seed(0)
    model = nn.Linear(6, 3)
    plain = copy.deepcopy(model)
    parallel = DistributedDataParallel(model)
    batches = torch.randn(2, size, 5, 6)
    with parallel.no_sync():
        parallel(batches[0, rank]).square().sum().backward()
    parallel(batches[1, rank]).square().sum().backward()
    for r in range(size):
        for batch in batches[:, r]:
            plain(batch).square().sum().backward()
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(ours.grad, theirs.grad / size, rtol=1e-4)


def test_no_sync_accumulates() -> None:
    run_ranks(2, accumulates)


def halves(rank: int, size: int) -> None:
    def hook(state, bucket):  # DDP looks at annotations and takes no texts for them
        buffer = bucket.buffer().to(torch.bfloat16).div_(size)
        future = dist.all_reduce(buffer, async_op=True).get_future()
        return future.then(lambda done: bucket.buffer().copy_(done.value()[0]))

    model = nn.Linear(4, 2)
    parallel = DistributedDataParallel(model)
    parallel.register_comm_hook(None, hook)
    parallel(torch.full((1, 4), rank + 1.0)).sum().backward()
    assert torch.equal(model.weight.grad, torch.full((2, 4), (size + 1) / 2))


def test_a_communication_hook_that_chains_futures() -> None:
    run_ranks(3, halves)
