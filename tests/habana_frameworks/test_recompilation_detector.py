"""Which modules recompile, and which shapes come from a data loader."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from habana_frameworks.torch.utils.experimental import data_dynamicity, detect_recompilation_auto_model
from habana_frameworks.torch.utils.experimental.detect_recompilation import const_shape_dataloader, get_shape


class Positive(nn.Module):
    """The sum of what is positive; how many those are depends on data."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].sum()


class Static(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, x, torch.zeros_like(x)).sum()


class Net(nn.Module):
    def __init__(self, last: nn.Module) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.last = last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * self.last(self.linear(x))


def watched(last: nn.Module, folder: Path) -> nn.Module:
    torch.manual_seed(0)
    return detect_recompilation_auto_model(Net(last).to("hpu"), csv_out=str(folder / "out"))


def rows(folder: Path, number: int) -> list[list[str]]:
    return [line.split(",") for line in (folder / f"out_{number}.csv").read_text().splitlines()]


def batches(*sizes: int) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(size, 3).to("hpu") for size in sizes]


def test_new_input_shapes_recompile_every_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = watched(Static(), tmp_path)
    for batch in batches(21, 21, 31, 31):
        net(batch)
    net.analyse_dynamicity()
    found = rows(tmp_path, 1)
    assert found[0] == ["Step", "Recompiling modules", "New in", "New out", "Class", "Location", "Comment"]
    assert [(row[0], row[1], row[2]) for row in found[1:]] == [
        (step, name, "True") for step in ("0", "2") for name in ("Net/linear", "Net/last", "Net")
    ]
    assert {row[6] for row in found[1:]} == {"Recompiled due to new input shape"}
    assert found[1][4] == "torch.nn.modules.linear.Linear" and found[1][5].endswith("torch/nn/modules/linear.py")
    assert rows(tmp_path, 2) == [
        ["Module name", "Recompile count"],
        ["Net/linear", "2"],
        ["Net/last", "2"],
        ["Net", "2"],
    ]
    assert "Location" in capsys.readouterr().out
    assert any("step:0" in line and "num_graphs:" in line for line in net.raw_logs())


def test_a_data_dependent_shape_is_blamed_on_its_module(tmp_path: Path) -> None:
    net = watched(Positive(), tmp_path)
    for batch in batches(22, 22, 22):
        net(batch)
    net.analyse_dynamicity()
    comments = {row[1]: row[6] for row in rows(tmp_path, 1)[1:] if row[2] == "False"}
    assert comments == {
        "Net/last": "Already processed input shape still recompiled. Maybe dyn ops",
        "Net": "Already processed input shape still recompiled. Maybe dyn ops. Could be due to dynamic child",
    }


def test_a_model_is_watched_once(tmp_path: Path) -> None:
    net = watched(Static(), tmp_path)
    with pytest.raises(ValueError, match="is already watched"):
        detect_recompilation_auto_model(net)


def test_shapes_of_data(capsys: pytest.CaptureFixture[str]) -> None:
    loader: DataLoader = DataLoader([torch.zeros(2, 3)] * 3 + [torch.zeros(4)], batch_size=None)  # type: ignore
    assert data_dynamicity(loader) == {(2, 3): 3, (4,): 1}
    printed = capsys.readouterr().out
    assert "Number of unique shapes:  2" in printed and "a little dynamicity" in printed
    assert [tuple(batch.shape) for batch in const_shape_dataloader(loader, 2)] == [(2, 3), (2, 3)]
    assert len(const_shape_dataloader(loader, 10)) == 3
    with pytest.raises(ValueError, match="gives no batch"):
        const_shape_dataloader([], 2)


def test_shapes_of_nested_data() -> None:
    tensor = torch.zeros(2, 1)
    assert get_shape([tensor, (tensor, {"a": tensor})]) == ((2, 1), ((2, 1), ((hash("a"), (2, 1)),)))
    assert get_shape({1: tensor}) == ((1, (2, 1)),)
