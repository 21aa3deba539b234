"""A tiny training script that tells the wall time at the end of its first step: `FIRST_STEP <epoch seconds>`.

The same script on both sides: device `hpu` with backend `hccl`, or device `cpu` with backend `gloo`.
"""

from __future__ import annotations

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

if sys.argv[1] == "hpu":
    import habana_frameworks.torch.core as htcore
    import habana_frameworks.torch.distributed.hccl  # noqa: F401

BACKENDS = {"hpu": "hccl", "cpu": "gloo"}
STEPS = 3


def main(device: str) -> None:
    """Train a small network for `STEPS` steps."""
    dist.init_process_group(BACKENDS[device])
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    model = DistributedDataParallel(network.to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        batch, target = torch.randn(16, 64).to(device), torch.zeros(16, dtype=torch.long).to(device)
        loss = torch.nn.functional.cross_entropy(model(batch), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if device == "hpu":
            htcore.mark_step()
        value = loss.item()
        if step == 0:
            print(f"FIRST_STEP {time.time():.6f} loss {value:.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    if device == "cpu":
        # Now and then a thread of gloo still holds Python objects here, and its end would abort the interpreter's.
        sys.stdout.flush()
        os._exit(0)


main(sys.argv[1])
