"""`torch.amp.GradScaler("hpu")`: the CPU's scales, skipped steps and parameters."""

from __future__ import annotations

from typing import Any

import pytest
import torch


def train(device: str, make: Any) -> tuple[list[float], list[torch.Tensor], dict[str, Any]]:
    """Scales, parameters and the scaler's state after six steps, of which the third overflows."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2).to(device)
    optimizer = make(model.parameters())
    scaler = torch.amp.GradScaler(device, init_scale=1024.0, growth_interval=2)
    scales = []
    for step in range(6):
        optimizer.zero_grad()
        inputs = (torch.arange(8.0).reshape(2, 4) / 8).to(device)
        loss = model(inputs * float("inf") if step == 2 else inputs).pow(2).sum()
        before = [parameter.detach().cpu().clone() for parameter in model.parameters()]
        scaler.scale(loss).backward()
        if step == 3:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        unchanged = all(torch.equal(a, b.detach().cpu()) for a, b in zip(before, model.parameters(), strict=True))
        assert unchanged == (step == 2)
    return scales, [parameter.detach().cpu() for parameter in model.parameters()], scaler.state_dict()


@pytest.mark.parametrize(
    "make",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, foreach=True),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, fused=True),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.1, foreach=True),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.1, fused=True),
    ],
    ids=["sgd", "sgd-foreach", "sgd-fused", "adamw-foreach", "adamw-fused"],
)
def test_scales_steps_and_state_are_the_cpus(make: Any) -> None:
    got, wanted = train("hpu", make), train("cpu", make)
    assert got[0] == wanted[0] == [1024.0, 2048.0, 1024.0, 1024.0, 2048.0, 2048.0]
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(got[1], wanted[1], strict=True))
    assert got[2] == wanted[2]


def test_state_travels_between_devices() -> None:
    state = train("hpu", lambda parameters: torch.optim.SGD(parameters, lr=0.1))[2]
    for device in ("hpu", "cpu"):
        scaler = torch.amp.GradScaler(device)
        scaler.load_state_dict(state)
        assert scaler.get_scale() == 2048.0 and scaler.get_growth_interval() == 2


def test_a_scaler_that_is_off_changes_nothing() -> None:
    scaler = torch.amp.GradScaler("hpu", enabled=False)
    loss = torch.ones((), device="hpu")
    assert scaler.scale(loss) is loss and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
