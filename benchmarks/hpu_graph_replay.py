"""A training step replayed as HPU graphs beside the same step recorded anew each time.

    python benchmarks/hpu_graph_replay.py [--check] [--layers 60] [--width 32] [--steps 40]

The step is forward and backward pass of a chain of small layers, where recording weighs most. Printed are the wall time
of this machine per step, in the median: what the emulation costs its user; and the modelled time of the host's threads
per step: what the host of a card would do. `--check` fails if a replay is no faster than recording, or takes modelled
time beyond its launches and copies.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time

import torch
from torch import nn

import habana_frameworks.torch as ht
from device.backend import runtime

WARM_UP = 5
MOST = 1.0  # of the recorded step's wall time


def chain(layers: int, width: int) -> nn.Module:
    """Small layers, one after another."""
    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()]
    return nn.Sequential(*parts).to("hpu")


def measure(model: nn.Module, x: torch.Tensor, steps: int) -> tuple[float, float]:
    """Wall and modelled host seconds of one step, without waiting for the card."""
    card = runtime.card()
    wall = []
    for step in range(WARM_UP + steps):
        ht.hpu.synchronize()
        if step == WARM_UP:
            work = sum(seconds for _, seconds in card.timeline.host_work.values())
        begin = time.perf_counter()
        model(x).sum().backward()
        ht.core.mark_step()
        for parameter in model.parameters():
            parameter.grad = None
        wall.append(time.perf_counter() - begin)
    done = sum(seconds for _, seconds in card.timeline.host_work.values())
    return statistics.median(wall[WARM_UP:]), (done - work) / steps


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--layers", type=int, default=60)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()

    torch.set_num_threads(1)
    plain = chain(options.layers, options.width)
    cached = ht.hpu.ModuleCacher()(copy.deepcopy(plain))
    x = torch.randn(8, options.width).to("hpu")
    recorded, replayed = (measure(model, x, options.steps) for model in (plain, cached))
    print(f"{'':10}{'wall ms':>10}{'host ms':>10}   (host: modelled)")
    for name, (wall, host) in (("recorded", recorded), ("replayed", replayed)):
        print(f"{name:10}{wall * 1e3:10.3f}{host * 1e3:10.3f}")
    ratios = [replay / record for replay, record in zip(replayed, recorded, strict=True)]
    print(f"{'ratio':10}{ratios[0]:10.3f}{ratios[1]:10.3f}")
    host = runtime.card().spec.host
    # Two replays; recorded are the input's copy, the sum, its gradient and the copy of that, in up to three graphs.
    most = 2 * host.graph_replay_s + 3 * host.launch_s + 12 * host.record_s
    failed = []
    if ratios[0] > MOST:
        failed.append(f"a replayed step takes {ratios[0]:.2f} of a recorded one's wall time, more than {MOST}")
    if replayed[1] > most:
        failed.append(f"a replayed step takes {replayed[1] * 1e6:.1f} us of the host, more than {most * 1e6:.1f}")
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
