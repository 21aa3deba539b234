"""A small model, its batches, and what one process on the CPU makes of them: the reference of parallel training."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

STEPS = 5
PER_RANK = 4  # samples of a batch
BF16 = {"rtol": 2e-2, "atol": 5e-3}  # of parameters after a few steps with gradients or activations in bfloat16

Optimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


class Net(nn.Module):
    """Three linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(12, 16)
        self.middle = nn.Linear(16, 16)
        self.last = nn.Linear(16, 4)

    @property
    def layers(self) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
        return self.first, self.middle, self.last

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.middle(torch.relu(self.first(features)))))


def make_net(device: str = "hpu") -> Net:
    torch.manual_seed(3)
    return Net().to(device)


def batches(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Features (steps, samples, 12) and labels (steps, samples) for `size` ranks."""
    generator = torch.Generator().manual_seed(7)
    samples = PER_RANK * size
    features = torch.randn(STEPS, samples, 12, generator=generator)
    return features, torch.randint(0, 4, (STEPS, samples), generator=generator)


def sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def adamw(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01)


@dataclass
class Reference:
    """What one process on the whole batch comes to."""

    parameters: dict[str, torch.Tensor]
    losses: list[float]


def reference(size: int, optimizer: Optimizer = sgd, clip: float | None = None) -> Reference:
    model = make_net("cpu")
    chosen, (features, labels) = optimizer(model.parameters()), batches(size)
    losses = []
    for step in range(STEPS):
        chosen.zero_grad()
        loss = cross_entropy(model(features[step]), labels[step])
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        chosen.step()
        losses.append(loss.item())
    return Reference({name: parameter.detach() for name, parameter in model.named_parameters()}, losses)


def train(
    model: Callable[..., torch.Tensor],
    optimizer: torch.optim.Optimizer,
    part: int,
    parts: int,
    size: int,
    before_step: Callable[[], Any] = lambda: None,
    set_to_none: bool = True,
) -> torch.Tensor:
    """Train on the `part`-th of `parts` equal pieces of every batch; the mean loss of each step over all ranks."""
    features, labels = batches(size)
    length = features.shape[1] // parts
    mine = slice(length * part, length * part + length)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=set_to_none)
        loss = cross_entropy(model(features[step, mine].to("hpu")).float(), labels[step, mine].to("hpu"))
        loss.backward()
        before_step()
        optimizer.step()
        losses.append(loss.detach())
    mean = torch.stack(losses)
    dist.all_reduce(mean)
    return mean.cpu() / size


def whole(model: nn.Module) -> dict[str, torch.Tensor]:
    """The parameters on the host, shards of DTensors put together."""
    return {
        name: (parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter).detach().cpu()
        for name, parameter in model.named_parameters()
    }


def assert_close(ours: Iterable[torch.Tensor], theirs: Iterable[torch.Tensor], **tolerance: float) -> None:
    """Equal within the rounding of float32 (or `rtol`, `atol`)."""
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.detach().cpu(), other.detach(), **({"rtol": 1e-4, "atol": 1e-6} | tolerance))


def assert_reference(
    expected: Reference, losses: torch.Tensor | None, parameters: Mapping[str, torch.Tensor], **tolerance: float
) -> str:
    """Losses and parameters are the reference's; returns a digest of the parameters' bits."""
    if losses is not None:
        assert_close([losses], [torch.tensor(expected.losses)], **({"atol": 1e-5} | tolerance))
    assert_close([parameters[name] for name in expected.parameters], expected.parameters.values(), **tolerance)
    return digest(parameters.values())


def digest(tensors: Iterable[torch.Tensor]) -> str:
    """One text for their bits."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().cpu().float().numpy().tobytes())
    return found.hexdigest()
