"""Normalization whose input, weight or bias needs no gradient: the backward operator has no such result."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn


@pytest.mark.parametrize("needed", list(itertools.product([True, False], repeat=3))[:-1])
@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (lambda: nn.BatchNorm1d(4), (8, 4)),
        (lambda: nn.BatchNorm2d(4), (2, 4, 3, 3)),
        (lambda: nn.GroupNorm(2, 4), (2, 4, 3)),
        (lambda: nn.LayerNorm(4), (8, 4)),
        (lambda: nn.InstanceNorm1d(4, affine=True), (2, 4, 5)),
    ],
    ids=["batch", "batch2d", "group", "layer", "instance"],
)
def test_gradients_of_what_needs_one(make: object, sizes: tuple[int, ...], needed: tuple[bool, bool, bool]) -> None:
    torch.manual_seed(0)
    values, results = torch.randn(sizes), []
    for device in ("cpu", "hpu"):
        torch.manual_seed(1)
        layer = make().to(device)  # type: ignore[operator]
        x = values.clone().to(device).requires_grad_(needed[0])
        layer.weight.requires_grad_(needed[1])
        layer.bias.requires_grad_(needed[2])
        layer(x).pow(2).sum().backward()
        results.append([None if t.grad is None else t.grad.cpu() for t in (x, layer.weight, layer.bias)])
    for on_cpu, on_card in zip(*results, strict=True):
        assert (on_cpu is None) == (on_card is None)
        if on_cpu is not None:
            torch.testing.assert_close(on_card, on_cpu)
