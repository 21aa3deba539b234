"""Indices are 32 bits wide on the card, so operators take int32 indices where CPU PyTorch wants int64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import habana_frameworks.torch  # noqa: F401  registers hpu

X = torch.arange(20.0).reshape(4, 5)
Operator = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

OPERATORS: dict[str, Operator] = {
    "take": lambda x, i: torch.take(x, i),
    "index_copy": lambda x, i: x.index_copy(0, i, torch.ones(2, 5, device=x.device)),
    "index_copy_": lambda x, i: x.clone().index_copy_(0, i, torch.ones(2, 5, device=x.device)),
    "index_fill": lambda x, i: x.index_fill(0, i, 7.0),
    "put": lambda x, i: x.put(i, torch.ones(2, device=x.device)),
    "nll_loss": lambda x, i: F.nll_loss(x[:2], i),
    "cross_entropy": lambda x, i: F.cross_entropy(x[:2], i, reduction="none"),
    "nll_loss of images": lambda x, i: F.nll_loss(x.reshape(1, 5, 2, 2), i.repeat(2).reshape(1, 2, 2)),
    "multi_margin_loss": lambda x, i: F.multi_margin_loss(x[:2], i),
    "max_unpool1d": lambda x, i: F.max_unpool1d(x[:1, :2], i[None], 2),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_32_bit_indices(name: str) -> None:
    index = torch.tensor([2, 0])
    expected = OPERATORS[name](X, index)
    result = OPERATORS[name](X.to("hpu"), index.to("hpu", torch.int32))
    assert torch.equal(result.cpu(), expected)


def test_the_gradient_of_a_loss_with_32_bit_labels() -> None:
    scores = X[:2].clone().requires_grad_()
    on_card = X[:2].to("hpu").requires_grad_()
    F.cross_entropy(scores, torch.tensor([2, 0])).backward()
    F.cross_entropy(on_card, torch.tensor([2, 0], dtype=torch.int32, device="hpu")).backward()
    assert torch.allclose(on_card.grad.cpu(), scores.grad)


def test_8_bit_floats_and_32_bit_indices_at_once() -> None:
    x = X.to(torch.float8_e5m2)
    result = x.to("hpu").index_fill(0, torch.tensor([1], dtype=torch.int32, device="hpu"), 2.0)
    assert torch.equal(result.cpu().float(), x.float().index_fill(0, torch.tensor([1]), 2.0))


def test_a_wrong_type_is_still_an_error() -> None:
    with pytest.raises((RuntimeError, IndexError)):
        torch.take(X.to("hpu"), torch.tensor([1.0], device="hpu")).cpu()
