"""Ray finds the cards by itself, gives each actor one, and its `TorchTrainer` trains on `$CARDS` of them by hccl.

First actors of plain Ray and two trials of Ray Tune, each on a card of its own; then the trainer, with `prepare_model`,
`prepare_data_loader` and a checkpoint an epoch.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.train
import ray.train.torch
import torch
import torch.distributed as dist
from ray import tune
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer
from torch.utils.data import DataLoader, TensorDataset

import habana_frameworks.torch.core as htcore

CARDS = int(os.environ["CARDS"])
NO_REPORT = {"env_vars": {"HPUCLUSTER_REPORT": ""}}  # for what is not the training itself


def circle(rows: int) -> TensorDataset:
    """Points of a square, and whether each lies within a circle of half its area."""
    points = torch.rand(rows, 2, generator=torch.Generator().manual_seed(1)) * 2 - 1
    return TensorDataset(points, (points.square().sum(1) < 2 / torch.pi).float().unsqueeze(1))


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))


@ray.remote(resources={"HPU": 1}, num_cpus=0.1, runtime_env=NO_REPORT)
class Holder:
    """An actor with a card."""

    def module(self) -> tuple[str, int, float]:
        """Which card it may use, how many it sees, and what the card computes."""
        value = (torch.arange(10.0).to("hpu") * 2).sum().item()
        return os.environ["HABANA_VISIBLE_MODULES"], torch.hpu.device_count(), value


def actors() -> None:
    holders = [Holder.remote() for _ in range(2)]
    found = ray.get([holder.module.remote() for holder in holders])
    assert {module for module, _, _ in found} == {"0", "1"} and {seen for _, seen, _ in found} == {1}, found
    assert {value for _, _, value in found} == {90.0}, found
    for holder in holders:
        ray.kill(holder)
    print("actors:", found, flush=True)


def trial(settings: dict[str, float]) -> None:
    """A few steps on the trial's card with the learning rate that Tune has chosen."""
    model = network().to("hpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["lr"])
    points, inside = circle(256)[:]
    for _ in range(8):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(points.to("hpu")), inside.to("hpu"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        htcore.mark_step()
    tune.report({"loss": loss.item()})


def trials() -> None:
    placed = tune.with_resources(trial, {"CPU": 0.5, "HPU": 1})
    results = tune.Tuner(
        placed,
        param_space={"lr": tune.grid_search([0.001, 0.3])},
        tune_config=tune.TuneConfig(metric="loss", mode="min"),
        run_config=tune.RunConfig(storage_path=os.path.abspath("tune"), verbose=0),
    ).fit()
    assert not results.errors and results.get_best_result().config["lr"] == 0.3
    print("tune:", sorted(result.metrics["loss"] for result in results), flush=True)


def loop(settings: dict[str, Any]) -> None:
    """What each worker of the trainer runs."""
    device = ray.train.torch.get_device()
    assert device.type == "hpu" and dist.get_backend() == "hccl"
    assert os.environ["HABANA_VISIBLE_MODULES"] == str(
        torch.hpu.current_device() + ray.train.get_context().get_local_rank()
    )
    model = ray.train.torch.prepare_model(network())
    loader = ray.train.torch.prepare_data_loader(DataLoader(circle(1024), batch_size=64, shuffle=True))
    optimizer = torch.optim.Adam(model.parameters(), lr=settings["lr"])
    losses = []
    for epoch in range(4):
        if ray.train.get_context().get_world_size() > 1:
            loader.sampler.set_epoch(epoch)
        total = torch.zeros((), device=device)
        for points, inside in loader:
            assert points.device.type == "hpu"
            loss = torch.nn.functional.binary_cross_entropy_with_logits(model(points), inside)
            optimizer.zero_grad()
            loss.backward()
            htcore.mark_step()
            optimizer.step()
            htcore.mark_step()
            total += loss.detach()
        dist.all_reduce(total)
        losses.append(total.item() / len(loader) / dist.get_world_size())
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if ray.train.get_context().get_world_rank() == 0:
                torch.save(model.state_dict(), Path(folder, "model.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            ray.train.report({"loss": losses[-1], "losses": losses, "epoch": epoch}, checkpoint=checkpoint)


def main() -> None:
    ray.init(num_cpus=CARDS + 2, include_dashboard=False)
    assert ray.cluster_resources()["HPU"] == torch.hpu.device_count() == 8
    actors()
    trials()
    result = TorchTrainer(
        loop,
        train_loop_config={"lr": 0.02},
        torch_config=TorchConfig(backend="hccl"),
        scaling_config=ScalingConfig(num_workers=CARDS, resources_per_worker={"CPU": 1, "HPU": 1}),
        run_config=RunConfig(storage_path=os.path.abspath("train")),
    ).fit()
    assert result.metrics["epoch"] == 3
    with result.checkpoint.as_directory() as folder:
        saved = torch.load(Path(folder, "model.pt"), map_location="cpu")
    assert all(torch.isfinite(value).all() for value in saved.values())
    Path(os.environ["LOSSES"]).write_text("\n".join(map(str, result.metrics["losses"])) + "\n")
    ray.shutdown()


if __name__ == "__main__":
    main()
