"""How long compilations take: the formula, and the figures of the tutorial on recompilations."""

from __future__ import annotations

import ast
import itertools
import math
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device.compiler.cost import compile_seconds
from device.compiler.program import Program, ProgramBuffer
from device.spec import load_card

Script = Callable[..., subprocess.CompletedProcess[str]]
GAUDI2 = load_card("gaudi2")
COMPILE = GAUDI2.compile


def program(operators: int, *sizes: int) -> Program:
    return Program((), tuple(ProgramBuffer(nbytes, True, True) for nbytes in sizes), operators)


def test_by_hand() -> None:
    """Three operators; a tensor of one slice can be halved once, one of seven slices three times."""
    slice_bytes = COMPILE.slice_bytes
    assert compile_seconds(program(3, slice_bytes, 7 * slice_bytes, 0), GAUDI2) == pytest.approx(
        COMPILE.base_s + 3 * COMPILE.operator_s + (1 + 3 + 0) * COMPILE.split_s, rel=1e-12
    )


def test_an_empty_program_still_costs_the_base() -> None:
    assert compile_seconds(program(0), GAUDI2) == COMPILE.base_s


@given(st.integers(0, 500), st.lists(st.integers(0, 10**9), max_size=20), st.integers(0, 50), st.integers(0, 10**9))
def test_more_to_compile_never_takes_less(operators: int, sizes: list[int], more: int, larger: int) -> None:
    small = compile_seconds(program(operators, *sizes), GAUDI2)
    assert compile_seconds(program(operators + more, *[size + larger for size in sizes]), GAUDI2) >= small
    assert compile_seconds(program(operators, *sizes, larger), GAUDI2) >= small


def test_time_grows_ever_more_slowly_with_size() -> None:
    times = [compile_seconds(program(100, *[batch * 10**5] * 50), GAUDI2) for batch in (1, 2, 4, 8, 16)]
    steps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(step > 0 for step in steps)
    assert steps[-1] < 1.05 * 50 * COMPILE.split_s and math.isclose(steps[-1], steps[-2], rel_tol=0.2)


STEPS = """
import sys

sys.path.insert(0, {examples!r})
import mnist
import torch
import torch.nn.functional as F

import habana_frameworks.torch.core as htcore
from habana_frameworks.torch.hpu.metrics import metric_global


def average(batches):
    model = mnist.Net().to("hpu")
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    metric = metric_global("graph_compilation")
    metric.reset()
    for batch in batches:
        data, target = torch.zeros(batch, 1, 28, 28).to("hpu"), torch.zeros(batch, dtype=torch.long).to("hpu")
        optimizer.zero_grad()
        with torch.autocast(device_type="hpu", dtype=torch.bfloat16):
            loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        htcore.mark_step()
    torch.hpu.synchronize()
    print(dict(metric.stats()))


average([128, 128, 128])
average(range(1, 11))
"""


@pytest.mark.slow
def test_the_network_of_the_tutorial(script: Script) -> None:
    """Two recipes at a constant batch of 128 took 295.7 ms each, ten at batches of 1 to 10 took 261.8 ms each."""
    examples = Path(__file__).resolve().parents[2] / "examples"
    lines = script(STEPS.format(examples=str(examples)), PT_HPU_LAZY_MODE="1").stdout.splitlines()
    constant, changing = (ast.literal_eval(line) for line in lines)
    assert (constant["TotalNumber"], changing["TotalNumber"]) == (2, 10)
    assert constant["AvgTime"] == pytest.approx(295_703, rel=0.03)
    assert changing["AvgTime"] == pytest.approx(261_782, rel=0.03)
