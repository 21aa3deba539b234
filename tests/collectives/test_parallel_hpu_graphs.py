"""Data parallel training with HPU graphs: the module is cached, and then wrapped; gradients are reduced outside."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from .rank_pool import RankPool


def run(rank: int, size: int, **options: Any) -> list[list[float]]:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 2)).to("hpu")
    cacher = torch.hpu.ModuleCacher()
    cached = cacher(copy.deepcopy(plain))
    ends = []
    for module in (plain, cached):
        torch.manual_seed(rank)
        parallel = DistributedDataParallel(module, bucket_cap_mb=1, **options)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for _ in range(4):
            parallel(torch.randn(3, 4).to("hpu")).pow(2).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        ends.append(torch.cat([parameter.detach().cpu().flatten() for parameter in module.parameters()]).tolist())
    assert sum(cacher.hits.values()) == 4
    return ends


@pytest.mark.parametrize("options", [{}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}], ids=str)
def test_training_is_the_plain_one_on_every_rank(lazy_pair: RankPool, options: dict[str, Any]) -> None:
    (plain, cached), other = lazy_pair.run(functools.partial(run, **options))
    assert plain == cached
    assert other == [plain, cached]
