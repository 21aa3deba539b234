"""Delayed scaling of 8-bit floats: what a step has seen decides the scales of later ones, replayed or not."""

from __future__ import annotations

import copy

import pytest
import torch

from habana_frameworks.torch.hpex.experimental import transformer_engine as te
from habana_frameworks.torch.hpex.experimental.transformer_engine.recipe import DelayedScaling, Format

INPUTS = [1.0, 100.0, 10.0, 1.0, 10.0, 100.0, 100.0, 1.0, 1.0, 100.0]


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("fp8_format", [Format.E5M2, Format.HYBRID], ids=["e5m2", "hybrid"])
def test_replays_scale_as_calls_do(steps: int, fp8_format: Format) -> None:
    recipe = DelayedScaling(fp8_format=fp8_format, amax_history_len=steps, amax_compute_algo="max", reduce_amax=False)
    rows = torch.arange(1.0, 5.0).to("hpu")
    module = te.Linear(4, 3)

    def call(linear: te.Linear, x: torch.Tensor) -> torch.Tensor:
        with te.fp8_autocast(enabled=True, fp8_recipe=recipe):
            return linear(x)

    call(module, rows).cpu()  # the first step has nothing to go by: another graph
    plain = copy.deepcopy(module)
    expected = [call(plain, rows * size).tolist() for size in INPUTS]

    graph, given = torch.hpu.HPUGraph(), torch.zeros(4, device="hpu")
    graph.capture_begin(dry_run=True)
    output = call(module, given)
    graph.capture_end()
    replayed = []
    for size in INPUTS:
        given.copy_(rows * size)
        graph.replay()
        replayed.append(output.tolist())
    assert replayed == expected
    assert (
        len({tuple(result) for result, size in zip(expected, INPUTS, strict=True) if size == 100}) > 1
    )  # some clamped
