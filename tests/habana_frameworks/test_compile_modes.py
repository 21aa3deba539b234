"""The same program gives the same numbers in lazy mode, in eager mode, and compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings

from .random_programs import Step, compute, inputs, on_card, programs

ROOT = Path(__file__).resolve().parents[2]

WORKER = """
    import json, sys
    import torch
    import habana_frameworks.torch
    from tests.habana_frameworks.random_programs import compute, on_card

    def compiled(program, *matrices):
        torch._dynamo.reset()
        return torch.compile(lambda *given: compute(program, *given), backend="hpu_backend")(*matrices)

    for line in sys.stdin:
        how, program = json.loads(line)
        print(json.dumps(on_card(program, compiled if how == "compiled" else compute)), flush=True)
"""


class Worker:
    """A process outside lazy mode that runs programs."""

    def __init__(self) -> None:
        code = "\n".join(line[4:] for line in WORKER.splitlines())
        environment = {**os.environ, "PT_HPU_LAZY_MODE": "0", "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )

    def run(self, how: str, program: list[Step]) -> list[list[float]]:
        """The program's results, "eager" or "compiled"."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([how, program]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the worker has ended"
        found: list[list[float]] = json.loads(answer)
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.wait(60)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    process = Worker()
    yield process
    process.close()


@given(programs)
@settings(max_examples=30)
def test_eager_and_lazy_mode_agree_to_the_last_bit(worker: Worker, program: list[Step]) -> None:
    assert worker.run("eager", program) == on_card(program)


@given(programs)
@settings(max_examples=10)
def test_compiled_programs_agree_with_lazy_mode(worker: Worker, program: list[Step]) -> None:
    got, wanted = worker.run("compiled", program), on_card(program)
    assert all(torch.allclose(torch.tensor(a), torch.tensor(b), atol=1e-5) for a, b in zip(got, wanted, strict=True))


@given(programs)
@settings(max_examples=30)
def test_without_random_numbers_they_are_the_cpus(program: list[Step]) -> None:
    kept = [step for step in program if step[0] != "dropout"]
    wanted = [value.flatten() for value in compute(kept, *inputs())]
    got = [torch.tensor(value) for value in on_card(kept)]
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(got, wanted, strict=True))
