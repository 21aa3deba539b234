"""A convolutional network learns where a bright square lies, under any launcher: ranks come from the environment.

What public scripts for Gaudi do at their start is all here: `initialize_distributed_hpu`, `hccl`, DDP with bucket
views, autocast, a mark_step after the backward pass and one after the optimizer, a metric reduced over the ranks, and a
checkpoint that every rank reads back.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import habana_frameworks.torch.core as htcore
import habana_frameworks.torch.distributed.hccl as hccl


def squares(rows: int) -> TensorDataset:
    """Pictures of 16 x 16 with a bright square of 8 x 8 in one of four corners, and the corner's number."""
    noise = torch.Generator().manual_seed(1)
    corners = torch.randint(4, (rows,), generator=noise)
    pictures = torch.randn(rows, 1, 16, 16, generator=noise)
    for picture, corner in zip(pictures, corners.tolist(), strict=True):
        top, left = 8 * (corner // 2), 8 * (corner % 2)
        picture[:, top : top + 8, left : left + 8] += 1
    return TensorDataset(pictures, corners)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(4),
        nn.Flatten(),
        nn.Linear(128, 4),
    )


def main() -> None:
    world, rank, _ = hccl.initialize_distributed_hpu()
    device = torch.device("hpu")
    model = network().to(device)
    data = squares(1000)
    sampler = None
    if world > 1:
        dist.init_process_group("hccl", rank=rank, world_size=world)
        model = DistributedDataParallel(model, gradient_as_bucket_view=True, broadcast_buffers=False)
        sampler = DistributedSampler(data)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(data, batch_size=64, sampler=sampler, shuffle=sampler is None)
    losses = []
    for _epoch in range(3):
        for pictures, corners in loader:
            pictures, corners = pictures.to(device, non_blocking=True), corners.to(device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("hpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(pictures), corners)
            loss.backward()
            htcore.mark_step()
            optimizer.step()
            htcore.mark_step()
            losses.append(loss.detach())
    mean = torch.stack(losses).float()
    if world > 1:
        dist.all_reduce(mean)
        mean /= world
    if rank <= 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")
        Path(os.environ["LOSSES"]).write_text("\n".join(map(str, mean.tolist())) + "\n")
    if world > 1:
        dist.barrier()
    saved = torch.load("checkpoint.pt")
    for name, value in model.state_dict().items():
        if "running" not in name:  # each rank's own
            assert torch.equal(saved["model"][name].cpu(), value.cpu()), name
    print(f"rank {max(rank, 0)} of {max(world, 1)}: loss {mean[-1].item():.3f}", flush=True)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
