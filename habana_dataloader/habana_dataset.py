"""`HabanaDataLoader`: batches of an image data set, and the data set that a manifest names.

On a machine with cards the loader decodes images with the card's media engines or a native library, and takes PyTorch's
loader for what those do not know. Here that is the way of all data sets: same batches, made by the host's processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from torch.utils.data import DataLoader

from habana_frameworks.mediapipe.unavailable import refuse

try:
    from torchvision.datasets import ImageFolder
except ImportError:
    ImageFolder = None


class _HostLoader(DataLoader):
    aeon = None
    """The native decoder, which programs ask for: none."""


class HabanaDataLoader:
    """Takes the arguments of `torch.utils.data.DataLoader`. `dataloader`: the loader that does the work."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.dataloader = _HostLoader(*args, **kwargs)
        print("HabanaDataLoader: the media decoder is not emulated. Running with PyTorch Dataloader")

    def __iter__(self) -> Iterator[Any]:
        return iter(self.dataloader)

    def __len__(self) -> int:
        return len(self.dataloader)


def _listed(manifest: Mapping[str, Sequence[str]], root: str) -> set[Path] | None:
    files = manifest.get("file_list")
    return {Path(root, file).resolve() for file in files} if files else None


class ImageFolderWithManifest(ImageFolder or object):  # type: ignore[misc]
    """`torchvision.datasets.ImageFolder` of the files that `manifest["file_list"]` names, below `root` or absolute.

    Without such a list it holds all of the folder. Needs torchvision.
    """

    samples: list[tuple[str, int]]

    def __init__(self, root: str, manifest: Mapping[str, Sequence[str]], *args: Any, **kwargs: Any) -> None:
        if ImageFolder is None:
            raise ImportError(
                "habana_dataloader.habana_dataset.ImageFolderWithManifest needs torchvision, not installed"
            )
        super().__init__(root, *args, **kwargs)
        self.manifest = manifest
        listed = _listed(manifest, root)
        if listed is not None:
            self.samples = [sample for sample in self.samples if Path(sample[0]).resolve() in listed]
            self.imgs = self.samples
            self.targets = [target for _, target in self.samples]


def fetch_habana_unet_loader(*args: Any, **kwargs: Any) -> NoReturn:
    """The loader of volumes for segmentation, which only the media pipeline has.

    Raises:
        NotImplementedError: always.
    """
    raise refuse("fetch_habana_unet_loader")
