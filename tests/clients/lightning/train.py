"""A small network learns a made classification with Lightning's `Trainer` on lightning-habana's accelerator.

bf16 by its precision plugin, its profiler, memory figures of the card in the log, validation, a checkpoint halfway from
which a second `Trainer` goes on; DDP over hccl where there is more than one card.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningDataModule, LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import DeviceStatsMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning_habana import HPUAccelerator
from lightning_habana.pytorch.plugins import HPUPrecisionPlugin
from lightning_habana.pytorch.strategies import HPUDDPStrategy, SingleHPUStrategy
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

CARDS = int(os.environ["CARDS"])
FEATURES, CLASSES = 16, 3


class Rows(LightningDataModule):
    """Rows of random features and the classes that a fixed linear map gives them."""

    def _rows(self, rows: int) -> DataLoader[Any]:
        features = torch.randn(rows, FEATURES, generator=torch.Generator().manual_seed(rows))
        truth = torch.randn(FEATURES, CLASSES, generator=torch.Generator().manual_seed(0))
        return DataLoader(TensorDataset(features, (features @ truth).argmax(1)), batch_size=32)

    def train_dataloader(self) -> DataLoader[Any]:
        return self._rows(640)

    def val_dataloader(self) -> DataLoader[Any]:
        return self._rows(96)


class Classifier(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, CLASSES))

    def _loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        features, labels = batch
        assert features.device.type == "hpu"
        return nn.functional.cross_entropy(self.network(features).float(), labels)

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        loss = self._loss(batch)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], index: int) -> None:
        self.log("val_loss", self._loss(batch), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def make_trainer(epochs: int, name: str) -> Trainer:
    seed_everything(1)
    return Trainer(
        accelerator=HPUAccelerator(),
        devices=CARDS,
        strategy=SingleHPUStrategy() if CARDS == 1 else HPUDDPStrategy(process_group_backend="hccl"),
        plugins=[HPUPrecisionPlugin(precision="bf16-mixed")],
        callbacks=[ModelCheckpoint("checkpoints", filename="{epoch}", save_top_k=-1), DeviceStatsMonitor()],
        logger=CSVLogger("log", name=name, version=0),
        max_epochs=epochs,
        log_every_n_steps=5,
        enable_progress_bar=False,
    )


def logged(name: str) -> list[dict[str, str]]:
    with Path("log", name, "version_0/metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    first = make_trainer(3, "first")
    first.fit(Classifier(), Rows())
    second = make_trainer(6, "second")
    model = Classifier()
    second.fit(model, Rows(), ckpt_path="checkpoints/epoch=2.ckpt")
    assert second.current_epoch == 6 and model.device.type == "cpu"
    figures = second.validate(Classifier.load_from_checkpoint("checkpoints/epoch=5.ckpt"), Rows())
    assert figures[0]["val_loss"] < 0.6, figures
    if second.is_global_zero:
        records = logged("first") + logged("second")
        assert any(float(value or 0) > 0 for record in records for key, value in record.items() if "MaxInUse" in key)
        losses = [record["loss"] for record in records if record.get("loss")]
        assert len(losses) == 6
        Path(os.environ["LOSSES"]).write_text("\n".join(losses) + "\n")


if __name__ == "__main__":
    main()
