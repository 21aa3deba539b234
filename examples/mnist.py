"""Train a small convolutional network on handwritten digits, on Gaudi cards or on the CPU.

    python examples/mnist.py --hpu --autocast                    one card
    hpurun --cards 8 examples/mnist.py --hpu --autocast          eight cards, data parallel
    torchrun --nproc_per_node 4 examples/mnist.py --hpu          the same through torchrun

`--data-path` may hold the MNIST files (train-images-idx3-ubyte and so on, also .gz). Without them the script takes the
1,797 real digits that scikit-learn ships, scaled to 28 x 28; the test split is held out, the training split is
repeated with small shifts up to `--train-samples`.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

MEAN, DEVIATION = 0.1307, 0.3081  # of the MNIST training images


class Net(nn.Module):
    """Two convolutions and two linear layers: (batch, 1, 28, 28) -> (batch, 10) log-probabilities."""

    def __init__(self, dropout: float = 1.0) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.dropout1 = nn.Dropout(0.25 * dropout)
        self.dropout2 = nn.Dropout(0.5 * dropout)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = self.dropout1(x)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = self.dropout2(x)
        return F.log_softmax(self.fc2(x), dim=1)


def read_idx(folder: Path, name: str) -> torch.Tensor | None:
    """The array in an IDX file of unsigned bytes, plain or gzipped; None where there is no such file."""
    for path, opener in ((folder / name, open), (folder / f"{name}.gz", gzip.open)):
        if path.exists():
            with opener(path, "rb") as file:
                data = file.read()
            if data[:3] != b"\x00\x00\x08":
                raise SystemExit(f"{path} is not an IDX file of unsigned bytes")
            rank = data[3]
            shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(rank)]
            return torch.from_numpy(np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape).copy())
    return None


def mnist(folder: Path) -> tuple[torch.Tensor, ...] | None:
    """(train images, train labels, test images, test labels) of the MNIST files, images as bytes, or None."""
    names = (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    )
    for place in (folder, folder / "MNIST" / "raw"):
        parts = [read_idx(place, name) for name in names]
        if all(part is not None for part in parts):
            return tuple(part for part in parts if part is not None)
    return None


def digits() -> tuple[torch.Tensor, ...]:
    """The same four from scikit-learn's digits: every fifth image is held out for the test."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    small = torch.tensor(bunch.images, dtype=torch.float32)[:, None] * (255.0 / 16.0)
    inner = F.interpolate(small, size=(20, 20), mode="bilinear", align_corners=False)
    images = F.pad(inner, (4, 4, 4, 4))[:, 0].to(torch.uint8)
    labels = torch.tensor(bunch.target)
    held_out = torch.arange(len(labels)) % 5 == 0
    return images[~held_out], labels[~held_out], images[held_out], labels[held_out]


def repeat_with_shifts(
    images: torch.Tensor, labels: torch.Tensor, count: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """`count` images: the given ones first, then copies moved by up to two pixels each way."""
    chosen = torch.arange(count) % len(images)
    shifts = torch.randint(-2, 3, (count, 2), generator=generator)
    shifts[: len(images)] = 0
    repeated = images[chosen].clone()
    for down in range(-2, 3):
        for right in range(-2, 3):
            moved = (shifts[:, 0] == down) & (shifts[:, 1] == right)
            repeated[moved] = torch.roll(repeated[moved], (down, right), dims=(1, 2))
    return repeated, labels[chosen]


def datasets(args: argparse.Namespace) -> tuple[TensorDataset, TensorDataset]:
    found = mnist(Path(args.data_path))
    train_images, train_labels, test_images, test_labels = found if found is not None else digits()
    count = args.train_samples if args.train_samples > 0 else len(train_images)
    generator = torch.Generator().manual_seed(args.seed)
    train_images, train_labels = repeat_with_shifts(train_images, train_labels, count, generator)

    def prepare(images: torch.Tensor, labels: torch.Tensor) -> TensorDataset:
        return TensorDataset((images[:, None].float() / 255.0 - MEAN) / DEVIATION, labels.long())

    return prepare(train_images, train_labels), prepare(test_images, test_labels)


def mark_step(args: argparse.Namespace) -> None:
    if args.hpu:
        htcore.mark_step()


def train(args, model, device, loader, optimizer, epoch) -> None:
    model.train()
    done = 0
    for batch_idx, (data, target) in enumerate(loader):
        if args.dynamic:
            kept = min(batch_idx + 1, args.batch_size - 1)
            data, target = data[:kept], target[:kept]
        data, target = data.to(device, non_blocking=True), target.to(device, non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast(device_type=device.type, dtype=torch.bfloat16, enabled=args.autocast):
            output = model(data)
            loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        mark_step(args)
        if batch_idx % args.log_interval == 0 and args.rank <= 0:
            if args.metrics:
                print("graph_compilation: ", metric_global("graph_compilation").stats())
            percent = 100.0 * batch_idx / len(loader)
            total = len(loader.dataset) / args.world_size
            print(f"Train Epoch: {epoch} [{done}/{total} ({percent:.0f}%)]\tLoss: {loss.item():.6f}", flush=True)
        done += len(data)


def test(args, model, device, loader) -> float:
    model.eval()
    figures = torch.zeros(3, device=device)
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            with torch.autocast(device_type=device.type, dtype=torch.bfloat16, enabled=args.autocast):
                output = model(data)
            figures[0] += F.nll_loss(output.float(), target, reduction="sum")
            figures[1] += (output.argmax(dim=1) == target).sum()
            figures[2] += len(target)
            mark_step(args)
    if args.world_size > 1:
        dist.all_reduce(figures)
    loss, correct, count = figures.tolist()
    count = max(count, 1.0)  # with shapes only, all figures are zero
    accuracy = 100.0 * correct / count
    if args.rank <= 0:
        print(f"Total test set: {count:.0f}, number of workers: {args.world_size}")
        print(f"* Average Acc {accuracy:.3f} Average loss {loss / count:.3f}", flush=True)
    return accuracy


def checksum(model: nn.Module) -> str:
    """A short hash of all parameters, bit for bit."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Handwritten digits on Gaudi cards")
    parser.add_argument("--batch-size", type=int, default=64, help="samples per step and card (64)")
    parser.add_argument("--test-batch-size", type=int, default=250, help="samples per evaluation batch (250)")
    parser.add_argument("--epochs", type=int, default=1, help="passes over the training samples (1)")
    parser.add_argument("--lr", type=float, default=1.0, help="learning rate of Adadelta (1.0)")
    parser.add_argument("--gamma", type=float, default=0.7, help="learning rate factor per epoch (0.7)")
    parser.add_argument("--seed", type=int, default=1, help="random seed (1)")
    parser.add_argument("--log-interval", type=int, default=10, help="batches between printed lines (10)")
    parser.add_argument("--hpu", action="store_true", help="train on Gaudi; without it on the CPU")
    parser.add_argument("--autocast", action="store_true", help="mixed precision in bfloat16")
    parser.add_argument("--use-torch-compile", action="store_true", help="compile the model; not in lazy mode")
    parser.add_argument("--data-path", default="./data", help="folder of the MNIST files, if there are any (./data)")
    parser.add_argument("--train-samples", type=int, default=24000, help="training samples; 0: each once (24000)")
    parser.add_argument("--dynamic", action="store_true", help="cut batch k to k+1 samples, to see recompilations")
    parser.add_argument("--metrics", action="store_true", help="print the graph compilation metric")
    parser.add_argument("--save-model", metavar="FILE", default=None, help="save the parameters to a file")
    args = parser.parse_args()
    if args.metrics and not args.hpu:
        parser.error("--metrics shows the card's compilations: add --hpu")
    return args


def main() -> None:
    args = parse()
    args.world_size, args.rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "-1"))
    device = torch.device("hpu" if args.hpu else "cpu")
    global htcore, metric_global
    if args.hpu:
        import habana_frameworks.torch.core as htcore
        from habana_frameworks.torch.distributed.hccl import initialize_distributed_hpu
        from habana_frameworks.torch.hpu.metrics import metric_global

        args.world_size, args.rank, _ = initialize_distributed_hpu()
    if args.world_size > 1:
        dist.init_process_group("hccl" if args.hpu else "gloo")

    torch.manual_seed(args.seed)
    train_set, test_set = datasets(args)
    if args.world_size > 1:
        train_sampler = DistributedSampler(train_set, seed=args.seed)
        test_sampler = range(max(args.rank, 0), len(test_set), args.world_size)
        train_loader = DataLoader(train_set, args.batch_size, sampler=train_sampler, drop_last=True)
        test_loader = DataLoader(test_set, args.test_batch_size, sampler=test_sampler)
    else:
        train_sampler = None
        shuffle = torch.Generator().manual_seed(args.seed)
        train_loader = DataLoader(train_set, args.batch_size, shuffle=True, generator=shuffle)
        test_loader = DataLoader(test_set, args.test_batch_size)

    model = Net().to(device)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    trained = model
    if args.world_size > 1:
        trained = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if args.use_torch_compile:
        trained = torch.compile(trained, backend="hpu_backend" if args.hpu else "aot_eager")

    for epoch in range(1, args.epochs + 1):
        if train_sampler is not None:
            train_sampler.set_epoch(epoch)
        train(args, trained, device, train_loader, optimizer, epoch)
        test(args, model, device, test_loader)
        scheduler.step()

    print(f"parameters of rank {max(args.rank, 0)}: {checksum(model)}", flush=True)
    if args.save_model and args.rank <= 0:
        torch.save(model.state_dict(), args.save_model)
    if args.world_size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
