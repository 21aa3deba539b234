"""Every operator that CPU PyTorch has, against CPU PyTorch: results, layouts and gradients, in lazy mode.

The samples are PyTorch's own operator database; `python -m tests.device.operator_database` takes more of them, and all
dtypes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from device.backend.runtime import card

from .operator_database.worker import examine, examine_errors, operators

OPERATORS = operators()
FEW = (torch.float32, torch.int64)
MORE = (torch.bfloat16, torch.float16, torch.float64, torch.bool, torch.uint8)
# Complex is what the card refuses first; an out= tensor that overlaps itself is resized before it is looked at.
OTHERWISE = ("fft.hfft", "fft.irfft", "index_select")


@pytest.fixture(scope="module", autouse=True)
def few_recipes() -> Iterator[None]:
    """A small recipe cache: hardly a graph here comes a second time, and each is compared with those in the cache."""
    cache = card().recipes.graphs
    capacity, cache.capacity = cache.capacity, 100
    yield
    cache.capacity = capacity


def failures(op: Any, dtypes: tuple[torch.dtype, ...], most: int) -> list[str]:
    results = [(dtype, examine(op, dtype, most)) for dtype in dtypes if dtype in op.supported_dtypes("cpu")]
    return [f"{dtype}: {result['reason']}" for dtype, result in results if result["status"] == "failed"]


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_equals_the_cpu(name: str) -> None:
    assert not failures(OPERATORS[name], FEW, most=1)


@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in OTHERWISE])
def test_wrong_arguments_are_an_error(name: str) -> None:
    result = examine_errors(OPERATORS[name])
    assert result["status"] != "failed", result["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_operator_equals_the_cpu_in_other_types(name: str) -> None:
    assert not failures(OPERATORS[name], MORE, most=1)
