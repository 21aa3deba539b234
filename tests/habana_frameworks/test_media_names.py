"""The media pipeline and its loader: programs import them at their top, and fall back to PyTorch's loader."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from torch.utils.data import TensorDataset

import habana_dataloader
from habana_frameworks.mediapipe import fn, media_types
from habana_frameworks.mediapipe.mediapipe import MediaPipe
from habana_frameworks.mediapipe.operators.cpu_nodes.cpu_nodes import media_function
from habana_frameworks.mediapipe.plugins.iterator_pytorch import HPUResnetPytorchIterator


class Pipe(MediaPipe):
    def __init__(self) -> None:
        super().__init__(device="hpu", batch_size=2, prefetch_depth=3, pipe_name="pipe")


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("Pipe", Pipe),
        ("HPUResnetPytorchIterator", lambda: HPUResnetPytorchIterator(mediapipe=None)),
        ("fn.ImageDecoder", lambda: fn.ImageDecoder(output_format=media_types.imgtype.RGB_P)),
    ],
)
def test_what_is_built_names_itself_and_the_alternative(name: str, build) -> None:
    with pytest.raises(NotImplementedError, match=rf"{name}: the media pipeline .* is not emulated.*DataLoader"):
        build()


def test_a_host_function_of_the_users_runs() -> None:
    class Flip(media_function):
        def __call__(self) -> list[int]:
            return self.params["shape"][::-1]

    assert Flip({"shape": [2, 3], "dtype": media_types.dtype.UINT8, "seed": 1})() == [3, 2]


def test_the_loader_gives_pytorchs_batches(capsys) -> None:
    data = TensorDataset(torch.arange(10.0), torch.arange(10))
    loader = habana_dataloader.HabanaDataLoader(dataset=data, batch_size=4, drop_last=True, num_workers=0)
    assert "Running with PyTorch Dataloader" in capsys.readouterr().out
    assert len(loader) == 2
    for _ in range(2):
        assert [labels.tolist() for _, labels in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_manifest_needs_torchvision_or_limits_the_folder(tmp_path) -> None:
    folder = habana_dataloader.habana_dataset.ImageFolderWithManifest
    if importlib.util.find_spec("torchvision") is None:
        with pytest.raises(ImportError, match="ImageFolderWithManifest needs torchvision"):
            folder(str(tmp_path), {})
        return
    vision, pictures = importlib.import_module("torchvision"), importlib.import_module("PIL.Image")
    for name in ("cat/1.png", "cat/2.png", "dog/3.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pictures.new("RGB", (4, 4)).save(tmp_path / name)
    assert issubclass(folder, vision.datasets.ImageFolder)
    assert len(folder(str(tmp_path), {})) == 3
    listed = folder(str(tmp_path), {"file_list": ["cat/2.png", "dog/3.png"]})
    assert listed.targets == [0, 1] and len(listed) == 2
