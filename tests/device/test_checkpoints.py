"""Checkpoints: written from the card, read with and without one, and from other devices."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch

from device.backend.checkpoints import CheckpointError, _restore


def written(content: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(content, file)
    file.seek(0)
    return file


def test_a_checkpoint_of_lazy_mode_holds_host_tensors() -> None:
    model = torch.nn.Linear(3, 2).to("hpu")
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3, device="hpu")).sum().backward()
    optimizer.step()
    address = model.weight.data_ptr()
    file = written({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3})
    assert model.weight.data_ptr() == address and model.weight.grad is not None  # the live model stays
    for location, device in ((None, "cpu"), ("cpu", "cpu"), ("hpu", "hpu"), (torch.device("hpu"), "hpu")):
        file.seek(0)
        loaded = torch.load(file, map_location=location)
        assert loaded["epoch"] == 3
        assert loaded["model"]["weight"].device.type == device
        assert loaded["optimizer"]["state"][0]["exp_avg"].device.type == device
        assert torch.equal(loaded["model"]["weight"].cpu(), model.weight.detach().cpu())


def test_what_shared_memory_shares_it_again() -> None:
    base = torch.arange(6.0, device="hpu")
    loaded = torch.load(written({"base": base, "view": base[2:4]}))
    loaded["base"].zero_()
    assert loaded["view"].tolist() == [0, 0]


def test_tensors_with_gradients_and_whole_modules_can_be_saved() -> None:
    weights = torch.ones(4, 4, device="hpu", requires_grad=True)
    weights.pow(2).sum().backward()
    assert torch.load(written(weights)).requires_grad
    module = torch.load(written(torch.nn.Linear(2, 1).to("hpu")), weights_only=False)
    assert module.weight.device.type == "cpu"


OTHER = """
import io, torch, habana_frameworks.torch
file = io.BytesIO()
torch.serialization.register_package(1, lambda storage: "cuda:0", lambda storage, location: None)
torch.save(torch.ones(2), file)
torch.serialization._package_registry.pop(0)
for location in (None, "hpu", "cpu"):
    file.seek(0)
    try:
        print(torch.load(file, map_location=location).device)
    except RuntimeError as error:
        print(error)
"""


def test_a_checkpoint_of_a_gpu(script) -> None:
    lazy = script(OTHER, PT_HPU_LAZY_MODE="1")
    assert lazy.stdout.splitlines() == ["cpu", "hpu:0", "cpu"]
    eager = script(OTHER, PT_HPU_LAZY_MODE="0")
    assert eager.stdout.splitlines()[1:] == ["hpu:0", "cpu"]
    assert "saved from cuda:0, which this process does not have" in eager.stdout
    assert 'map_location="hpu"' in eager.stdout


@pytest.mark.parametrize("location", ["xpu:1", "npu:0", "mlu:0"])
def test_checkpoints_of_other_accelerators_are_refused_by_name(location: str) -> None:
    with pytest.raises(CheckpointError, match=location):
        _restore(None, location)
    _restore(None, "cpu")
    _restore(None, "meta")
