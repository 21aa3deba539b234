"""A residual network learns a made classification with DeepSpeed: ZeRO 1, 2 and 3 one after the other.

Stage 1 trains in float32 with DeepSpeed's FusedAdam, which is a fused operator of the card; stage 2 in bf16 with
gradient accumulation and overlapped collectives; stage 3 in bf16 with partitioned parameters, activation checkpoints
and the optimizer's states on the host. Each saves a checkpoint and goes on from it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import deepspeed
import torch
import torch.distributed as dist
from torch import nn

WIDTH, CLASSES, ROWS, STEPS = 32, 4, 32, 16

BUCKETS = {"reduce_bucket_size": 100_000, "allgather_bucket_size": 100_000}
"""In elements; DeepSpeed's own 5e8 are meant for larger networks."""
ZERO: dict[int, dict[str, Any]] = {
    1: {
        "zero_optimization": {"stage": 1, **BUCKETS},
        "optimizer": {"type": "AdamW", "params": {"lr": 5e-3}},
    },
    2: {
        "zero_optimization": {"stage": 2, **BUCKETS, "overlap_comm": True, "contiguous_gradients": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 5e-3, "torch_adam": True}},
        "bf16": {"enabled": True},
        "gradient_accumulation_steps": 2,
    },
    3: {
        "zero_optimization": {"stage": 3, **BUCKETS, "offload_optimizer": {"device": "cpu", "pin_memory": True}},
        "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": True},
        "activation_checkpointing": {"partition_activations": False},
    },
}
COMMON = {"train_micro_batch_size_per_gpu": ROWS, "gradient_clipping": 1.0, "steps_per_print": 8}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.down(torch.relu(self.up(x))))


class Network(nn.Module):
    def __init__(self, checkpoints: bool) -> None:
        super().__init__()
        self.checkpoints = checkpoints
        self.first = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = deepspeed.checkpointing.checkpoint(block, x) if self.checkpoints else block(x)
        return nn.functional.cross_entropy(self.last(x).float(), labels)


def batches(rank: int, device: torch.device, dtype: torch.dtype) -> Any:
    """Endless rows and the classes that a fixed linear map gives them; each rank its own."""
    chance = torch.Generator().manual_seed(100 + rank)
    truth = torch.randn(WIDTH, CLASSES, generator=torch.Generator().manual_seed(1))
    while True:
        rows = torch.randn(ROWS, WIDTH, generator=chance)
        yield rows.to(device, dtype), (rows @ truth).argmax(1).to(device)


def train(stage: int) -> list[float]:
    """Mean losses of the ranks, a value per step of the optimizer's."""
    settings = COMMON | ZERO[stage]
    torch.manual_seed(0)
    model = Network(checkpoints="activation_checkpointing" in settings)
    optimizer = None if "optimizer" in settings else torch.optim.AdamW(model.parameters(), lr=5e-3)
    engine, optimizer, _, _ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), optimizer=optimizer, config=settings
    )
    if "activation_checkpointing" in settings:
        deepspeed.checkpointing.configure(None, deepspeed_config=settings)
    if stage == 1:
        assert type(engine.basic_optimizer).__name__ == "FusedAdam", type(engine.basic_optimizer)
    dtype = torch.bfloat16 if "bf16" in settings else torch.float32
    data = batches(engine.global_rank, engine.device, dtype)
    losses = []
    for step in range(STEPS):
        mean = torch.zeros((), device=engine.device)
        for _ in range(engine.gradient_accumulation_steps()):
            loss = engine(*next(data))
            engine.backward(loss)
            engine.step()
            mean += loss.detach() / engine.gradient_accumulation_steps()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
        if step == STEPS // 2:
            engine.save_checkpoint(f"stage{stage}")
            engine.load_checkpoint(f"stage{stage}")
    assert engine.global_steps == STEPS
    if engine.global_rank == 0:
        print(f"ZeRO {stage}: {losses[0]:.3f} -> {losses[-1]:.3f} with {type(optimizer).__name__}", flush=True)
    engine.destroy()
    return losses


def main() -> None:
    deepspeed.init_distributed(dist_backend="hccl")
    assert dist.get_backend() == "hccl"
    curves = [train(stage) for stage in ZERO]
    assert all(sum(curve[-4:]) < 0.85 * sum(curve[:4]) for curve in curves), curves
    if dist.get_rank() == 0:
        mean = [sum(losses) / len(losses) for losses in zip(*curves, strict=True)]
        Path(os.environ["LOSSES"]).write_text("\n".join(map(str, mean)) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
