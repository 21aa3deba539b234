"""Fused optimizers and clipping where a parameter is a scalar: learning rate and factor are tensors of one element."""

from __future__ import annotations

import pytest
import torch

import habana_frameworks.torch.core as htcore
from habana_frameworks.torch.hpex import optimizers
from habana_frameworks.torch.hpex.normalization import FusedClipNorm

PAIRS = {
    "FusedAdamW": (torch.optim.AdamW, {"lr": 0.1, "weight_decay": 0.1, "eps": 1e-12}),
    "FusedSGD": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "FusedAdagrad": (torch.optim.Adagrad, {"lr": 0.1, "eps": 1e-10}),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_scalar_is_clipped_and_updated_like_any_other(name: str) -> None:
    plain, settings = PAIRS[name]
    results = []
    for device, optimizer in (("cpu", plain), ("hpu", getattr(optimizers, name))):
        scalar, vector = (torch.nn.Parameter(torch.full(shape, 0.5, device=device)) for shape in ((), (3,)))
        stepper, clip = optimizer([scalar, vector], **settings), FusedClipNorm([scalar, vector], 1.0)
        for _ in range(3):
            (scalar.square() * 3 + vector.sum() * scalar).backward()
            if device == "cpu":
                norm = torch.nn.utils.clip_grad_norm_([scalar, vector], 1.0)
            else:
                norm = clip.clip_norm([scalar, vector])
            stepper.step()
            htcore.mark_step()
            stepper.zero_grad()
        assert scalar.shape == ()
        results.append(torch.cat([scalar.detach().reshape(1), vector.detach(), norm.detach().reshape(1)]).cpu())
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-5)
