"""A learning rate that follows a schedule makes no new graphs, in PyTorch's fused optimizers as in the others."""

from __future__ import annotations

import pytest
import torch

import habana_frameworks.torch.core as htcore
from habana_frameworks.torch.hpu.metrics import metric_global


def compiled() -> int:
    torch.hpu.synchronize()
    metric = metric_global("graph_compilation")
    assert metric is not None
    return int(dict(metric.stats())["TotalNumber"])


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_a_new_learning_rate_makes_no_new_graph(kind: type[torch.optim.Optimizer], fused: bool) -> None:
    results = []
    for device in ("cpu", "hpu"):
        weight = torch.nn.Parameter(torch.linspace(-1, 1, 8, device=device))
        optimizer = kind([weight], lr=0.1, fused=fused)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1.5))
        for step in range(8):
            if step == 4:
                settled = compiled()
            weight.square().sum().backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            htcore.mark_step()
        results.append(weight.detach().cpu())
    torch.testing.assert_close(results[0], results[1])
    assert compiled() == settled
