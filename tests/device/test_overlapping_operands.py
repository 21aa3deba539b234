"""The card reads all operands before it writes: an operator may write to memory that it also reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import habana_frameworks.torch  # noqa: F401  registers hpu

OPERATORS: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]] = {
    "add_": lambda x, read, index: x[1:].add_(read[:-1]),
    "copy_": lambda x, read, index: x[1:].copy_(read[:-1]),
    "index_copy_": lambda x, read, index: x.index_copy_(0, index, read[:2]),
    "index_add_": lambda x, read, index: x.index_add_(0, index, read[:2]),
    "scatter_": lambda x, read, index: x.scatter_(0, index, read[:2]),
    "mul out": lambda x, read, index: torch.mul(read[:-1], 2.0, out=x[1:]),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_writes_to_what_it_reads(name: str) -> None:
    values, index = torch.arange(1.0, 7.0), torch.tensor([1, 0])
    on_card, expected = values.to("hpu"), values.clone()
    OPERATORS[name](on_card, on_card, index.to("hpu"))
    OPERATORS[name](expected, values, index)
    assert torch.equal(on_card.cpu(), expected)
