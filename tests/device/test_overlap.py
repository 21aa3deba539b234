"""Host and card overlap: what a step mark between forward and backward gains, and what it costs in memory.

The script trains a small network and reads its loss each step. Its figures are compared with the two lines of time
drawn by hand, from the number of recorded operators and the durations of the recipes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from device.description import configs_dir

TRAIN = """
    import json, sys
    import torch
    from torch import nn
    import habana_frameworks.torch.core as htcore
    from device.card import current_card

    split, width, batch = sys.argv[1] == "split", int(sys.argv[2]), int(sys.argv[3])
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 8))
    net = net.to("hpu")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, foreach=False)
    x = torch.randn(batch, width).to("hpu")
    line, recorded, launched = None, [], []

    def record(operators):
        recorded.append(operators)
        plain_record(operators)

    def launch(recipe, *rest):
        launched.append(recipe)
        return plain_launch(recipe, *rest)

    for step in range(4):
        if step == 3:
            line = current_card().timeline
            plain_record, plain_launch = line.record, line.launch
            line.record, line.launch = record, launch
        begin = line.main if line else 0.0
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        if split:
            htcore.mark_step()
        loss.backward()
        optimizer.step()
        htcore.mark_step()
        loss.item()
    seconds = [current_card().recipe(name).seconds for name in launched]
    print(json.dumps({
        "step": line.main - begin,
        "operators": sum(recorded),
        "recipes": seconds,
        "peak": torch.hpu.max_memory_allocated(),
    }))
"""

HOST = {"record_s": 1e-3, "launch_s": 5e-4}


def card_file(folder: Path, **figures: float) -> str:
    """Gaudi2 with other figures, as a file."""
    text = (configs_dir() / "cards" / "gaudi2.toml").read_text()
    for key, value in figures.items():
        text, count = re.subn(rf"(?m)^{key} = \S+", f"{key} = {value}", text)
        assert count == 1, key
    path = folder / "card.toml"
    path.write_text(text)
    return str(path)


def train(script: Callable[..., Any], card: str, *, split: bool, width: int, batch: int) -> dict[str, Any]:
    mode = "split" if split else "whole"
    done = script(TRAIN, mode, str(width), str(batch), HPUCLUSTER_CARD=card, HPUCLUSTER_NUMERICS="off")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def test_where_the_host_is_the_bottleneck_a_mark_shortens_the_step_by_the_forward_pass(
    script: Callable[..., Any], tmp_path: Path
) -> None:
    card = card_file(tmp_path, **HOST)
    whole = train(script, card, split=False, width=4096, batch=4096)
    split = train(script, card, split=True, width=4096, batch=4096)
    forward, backward = split["recipes"]
    (both,) = whole["recipes"]
    assert whole["operators"] == split["operators"]
    assert forward < 1e-3 * split["operators"] / 4  # less than the host takes to record the rest
    # Whole: record all, launch, run all. Split: forward runs while the rest is recorded; launch, run backward.
    assert whole["step"] - split["step"] == pytest.approx(both - backward, abs=1e-9)
    assert whole["step"] - split["step"] > 0.9 * forward


def test_where_the_card_is_the_bottleneck_a_mark_gains_no_more_than_the_host_had_to_give(
    script: Callable[..., Any], tmp_path: Path
) -> None:
    card = card_file(tmp_path, record_s=1e-9, launch_s=1e-9)
    whole = train(script, card, split=False, width=4096, batch=4096)
    split = train(script, card, split=True, width=4096, batch=4096)
    host = 1e-9 * whole["operators"]
    assert split["step"] > (whole["step"] - host) * (1 - 1e-9)  # two graphs are no faster than one


def test_a_mark_between_forward_and_backward_raises_peak_memory(script: Callable[..., Any], tmp_path: Path) -> None:
    card = card_file(tmp_path, **HOST)
    whole = train(script, card, split=False, width=1024, batch=65536)
    split = train(script, card, split=True, width=1024, batch=65536)
    assert split["peak"] > whole["peak"]
