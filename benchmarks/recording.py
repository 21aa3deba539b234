"""What an operator costs on hpu, and what a training step costs beside plain CPU PyTorch.

    python benchmarks/recording.py [--check]

1. A training step of a tiny network, whose arithmetic is next to nothing, once on hpu with its recipe in the cache
   (recording, flush, signature, lookup, launch and replay included) and once under `FakeTensorMode`, which only tracks
   shapes. Goal: FakeTensorMode takes at least 6 times as long per operator. The hpu figure still holds the tiny
   arithmetic, so the ratio is a lower bound.
2. The step of `examples/mnist.py` at batch 64 on one card and in plain CPU PyTorch with as many threads.
   Goal: at most 1.10 times as long.

Both sides of a ratio are measured in turns in the same process; the median of the turns counts.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ["PT_HPU_LAZY_MODE"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import mnist
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import habana_frameworks.torch.core as htcore
from device.backend import runtime

FAKE_GOAL, STEP_GOAL = 6.0, 1.10


def tiny_step(device: str) -> Callable[[], None]:
    """A training step of some ninety operators on tensors of a few elements."""
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 4))
    net = net.to(device) if device == "hpu" else net
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, foreach=False)
    x, y = torch.randn(4, 8).to(device), torch.randn(4, 4).to(device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        F.mse_loss(net(x), y).backward()
        optimizer.step()
        if device == "hpu":
            htcore.mark_step()

    return step


def mnist_step(device: str) -> Callable[[], None]:
    """The example's step at batch 64; on hpu it is over when the numbers are there."""
    torch.manual_seed(0)
    model = mnist.Net().to(device)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    data, target = torch.randn(64, 1, 28, 28).to(device), torch.randint(0, 10, (64,)).to(device)

    def step() -> None:
        optimizer.zero_grad()
        F.nll_loss(model(data), target).backward()
        optimizer.step()
        if device == "hpu":
            htcore.mark_step()
            torch.hpu.synchronize()

    return step


def seconds(step: Callable[[], None], repetitions: int) -> float:
    started = time.perf_counter()
    for _ in range(repetitions):
        step()
    return (time.perf_counter() - started) / repetitions


def in_turns(a: Callable[[], float], b: Callable[[], float], turns: int) -> tuple[float, float]:
    """Medians of two measurements taken in turns."""
    rows = [(a(), b()) for _ in range(turns)]
    return statistics.median(row[0] for row in rows), statistics.median(row[1] for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a goal is missed")
    check = parser.parse_args().check

    on_card = tiny_step("hpu")
    for _ in range(4):
        on_card()
    before = runtime.card().journal.compilations[:]
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    with fake:
        faked = tiny_step("cpu")
        for _ in range(3):
            faked()

    def fake_seconds() -> float:
        with fake:
            return seconds(faked, 5)

    card_time, fake_time = in_turns(lambda: seconds(on_card, 100), fake_seconds, 9)
    assert runtime.card().journal.compilations == before, "the measured steps compiled"
    operators = len(runtime.card().recipes.graphs.latest().graph.nodes)
    print(f"operators per tiny step       {operators}")
    print(f"hpu, recipe cached            {card_time / operators * 1e6:8.2f} us per operator")
    print(f"FakeTensorMode                {fake_time / operators * 1e6:8.2f} us per operator")

    hpu_step, cpu_step = mnist_step("hpu"), mnist_step("cpu")
    for _ in range(3):
        hpu_step()
        cpu_step()
    hpu_time, cpu_time = in_turns(lambda: seconds(hpu_step, 5), lambda: seconds(cpu_step, 5), 15)
    print(f"digits step on hpu            {hpu_time * 1e3:8.2f} ms")
    print(f"digits step on CPU            {cpu_time * 1e3:8.2f} ms ({torch.get_num_threads()} threads each)")

    cheaper, slower = fake_time / card_time, hpu_time / cpu_time
    print(f"FakeTensorMode / hpu          {cheaper:8.2f} (goal: at least {FAKE_GOAL})")
    print(f"hpu step / CPU step           {slower:8.3f} (goal: at most {STEP_GOAL})")
    if check and (cheaper < FAKE_GOAL or slower > STEP_GOAL):
        sys.exit(1)


if __name__ == "__main__":
    main()
