"""Distributed checkpoints of models on cards: saved by all ranks, loaded by as many, by others, by none."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from .parallel_models import Net, adamw, assert_close, batches, make_net, whole
from .rank_pool import RankPool


def saves(rank: int, size: int, folder: str) -> None:
    features, labels = (tensor[0].to("hpu") for tensor in batches(2))
    model = fully_shard(make_net())
    optimizer = adamw(model.parameters())
    cross_entropy(model(features), labels).backward()
    optimizer.step()
    states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
    dcp.save(states, checkpoint_id=f"{folder}/now")
    dcp.async_save(states, checkpoint_id=f"{folder}/later", process_group=dist.new_group(backend="gloo")).result()
    parameters = whole(model)
    if rank == 0:
        torch.save(parameters, f"{folder}/parameters.pt")
    parallel = DistributedDataParallel(make_net())
    dcp.save({"model": parallel.state_dict()}, checkpoint_id=f"{folder}/ddp")


def loads(rank: int, size: int, folder: str) -> None:
    expected = torch.load(f"{folder}/parameters.pt")
    for name in ("now", "later"):
        model = fully_shard(Net().to("hpu"))
        optimizer = adamw(model.parameters())
        states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
        dcp.load(states, checkpoint_id=f"{folder}/{name}")
        set_state_dict(model, optimizer, model_state_dict=states["model"], optim_state_dict=states["optimizer"])
        assert_close(whole(model).values(), expected.values(), rtol=0, atol=0)
        assert all(state["step"].item() == 1 for state in optimizer.state.values())
    state = DistributedDataParallel(Net().to("hpu")).state_dict()
    dcp.load({"model": state}, checkpoint_id=f"{folder}/ddp")
    assert_close(state.values(), make_net("cpu").parameters(), rtol=0, atol=0)


def test_a_checkpoint_is_loaded_by_more_ranks_and_by_a_single_process(
    lazy_pair: RankPool, four: RankPool, tmp_path: Path
) -> None:
    lazy_pair.run(saves, str(tmp_path))
    lazy_pair.run(loads, str(tmp_path))
    four.run(loads, str(tmp_path))
    model = Net()
    state = {"model": model.state_dict()}
    dcp.load(state, checkpoint_id=tmp_path / "now", no_dist=True)
    assert_close(model.parameters(), torch.load(tmp_path / "parameters.pt").values(), rtol=0, atol=0)
