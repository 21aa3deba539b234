"""`tensor.data = other` between host and card: the tensor stays, what refers to it sees the new device."""

from __future__ import annotations

import torch


def test_a_parameter_moves_in_place_and_back() -> None:
    parameter = torch.nn.Parameter(torch.arange(3.0))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    assert (parameter * 2).grad_fn is not None  # its accumulator of the old device is made, and let go
    parameter.data = parameter.data.to("hpu")
    assert parameter.device.type == "hpu"
    assert parameter.is_leaf and parameter.requires_grad
    (parameter * 2).sum().backward()
    optimizer.step()
    assert parameter.tolist() == [-2.0, -1.0, 0.0]
    parameter.grad = None
    parameter.data = parameter.data.cpu()
    assert parameter.device.type == "cpu"
    (parameter * 3).sum().backward()
    optimizer.step()
    assert parameter.tolist() == [-5.0, -4.0, -3.0]


def test_hooks_and_views_stay_with_the_tensor() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    seen = []
    parameter.register_post_accumulate_grad_hook(lambda tensor: seen.append(tensor.grad.device.type))
    parameter.data = parameter.data.to("hpu")
    (parameter * 2).sum().backward()
    assert seen == ["hpu"]
    parameter.grad = None
    parameter.data = torch.zeros(5, device="hpu")
    assert parameter.shape == (5,)
