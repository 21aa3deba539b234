"""The report of a run does not depend on this machine: not on its speed, nor on what else it has to do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .hpurun_process import hpurun

pytestmark = pytest.mark.slow

SCRIPT = """
import torch
import torch.distributed as dist
from torch import nn
import habana_frameworks.torch.core as htcore
import habana_frameworks.torch.distributed.hccl

dist.init_process_group("hccl")
torch.manual_seed(dist.get_rank())
net = nn.Sequential(nn.Linear(32, 64), nn.Dropout(0.1), nn.ReLU(), nn.Linear(64, 4)).to("hpu")
net = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.Adam(net.parameters())
rank, others = dist.get_rank(), dist.new_group([0, 1])
for step in range(6):
    size = 16 if step < 4 else 8
    x = torch.randn(size, 32).pin_memory().to("hpu", non_blocking=True)
    optimizer.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    # Two groups and messages at once, beside work that does not need them, on ranks that do not come together.
    first, second, sent, received = (torch.ones(1 << 16, device="hpu") for _ in range(4))
    under_way = [dist.all_reduce(first, async_op=True), dist.all_reduce(second, group=others, async_op=True)]
    work = torch.ones(64 * (1 + rank), 256, device="hpu").exp().sum()
    htcore.mark_step()
    under_way += [dist.isend(sent, 1 - rank), dist.irecv(received, 1 - rank)]
    optimizer.step()
    htcore.mark_step()
    for handle in under_way:
        handle.wait()
    if step % 2:
        (loss + work + second.sum() + received.sum()).item()
"""


@contextmanager
def busy_machine() -> Iterator[None]:
    """Three processes that use all the processor they can get."""
    spin = [sys.executable, "-c", "while True: sum(range(100000))"]
    others = [subprocess.Popen(spin) for _ in range(3)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_reports_from_an_idle_and_a_loaded_machine_are_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    arguments = ["--cards", "2", "--report", "report.json", "train.py"]
    assert hpurun(tmp_path, *arguments).returncode == 0
    idle = (tmp_path / "report.json").read_bytes()
    with busy_machine():
        assert hpurun(tmp_path, *arguments).returncode == 0
    assert (tmp_path / "report.json").read_bytes() == idle
