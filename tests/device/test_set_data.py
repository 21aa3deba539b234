"""Data that moves between host and card while the tensor stays the same object."""

from __future__ import annotations

import torch


def test_an_optimizer_made_before_the_module_moves_goes_on() -> None:
    module = torch.nn.Linear(2, 2)
    weight, before = module.weight, module.weight.detach().clone()
    weight.is_marked = True  # type: ignore[attr-defined]
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    module(torch.ones(1, 2)).sum().backward()
    module.to("hpu")
    assert module.weight is weight and hasattr(weight, "is_marked")
    assert weight.device.type == "hpu" and weight.grad is not None and weight.grad.device.type == "hpu"
    optimizer.step()
    assert torch.equal(module.weight.cpu(), before - 0.5)
    assert torch.equal(module.to("cpu").weight, before - 0.5) and module.weight is weight


def test_shared_parameters_stay_shared() -> None:
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    second.weight = first.weight
    both = torch.nn.Sequential(first, second).to("hpu")
    assert both[0].weight is both[1].weight


def test_data_is_set_across_devices() -> None:
    tensor = torch.zeros(2)
    tensor.data = torch.arange(3.0).to("hpu")
    assert tensor.device.type == "hpu" and tensor.tolist() == [0, 1, 2]
    tensor.data = torch.ones(1)
    assert tensor.device.type == "cpu" and tensor.tolist() == [1]


def test_a_module_may_still_be_made_without_memory() -> None:
    module = torch.nn.Linear(2, 2, device="meta").to_empty(device="hpu")
    assert module.weight.device.type == "hpu"
    assert module.to("meta").weight.device.type == "meta"


def test_a_result_of_another_size_is_resized() -> None:
    result = torch.arange(6.0).to("hpu")
    torch.ops.aten._resize_output_(result, [2, 2], result.device)
    assert result.shape == (2, 2) and result.flatten().tolist() == [0, 1, 2, 3]
