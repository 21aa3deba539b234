"""The loader, and the data set of images listed in a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch.utils.data

from habana_frameworks._unavailable import refuse

try:
    from PIL import Image as pil
except ImportError:
    pil = None


class HabanaDataLoader(torch.utils.data.DataLoader):
    """`torch.utils.data.DataLoader`; takes its arguments and gives its batches."""


class ImageFolderWithManifest(torch.utils.data.Dataset):
    """Images below `root` that a manifest lists: class name to file names. Items are (image, number of the class).

    `loader` opens a file; without one Pillow does. Classes are numbered in the order of their names.
    """

    def __init__(
        self,
        root: str,
        manifest: Mapping[str, Sequence[str]],
        loader: Callable[[str], Any] | None = None,
        extensions: Sequence[str] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
    ) -> None:
        self.root = root
        self.loader = loader or _open
        self.transform = transform
        self.target_transform = target_transform
        self.classes = sorted(manifest)
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        paths = [(str(Path(root, name, file)), name) for name in self.classes for file in manifest[name]]
        self.samples = [
            (path, self.class_to_idx[name])
            for path, name in paths
            if (is_valid_file is None or is_valid_file(path))
            and (extensions is None or path.lower().endswith(tuple(extensions)))
        ]
        self.imgs = self.samples
        self.targets = [target for _, target in self.samples]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        image = self.loader(path)
        if self.transform is not None:
            image = self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)


def _open(path: str) -> Any:
    if pil is None:
        raise ModuleNotFoundError("opening images needs Pillow: pip install pillow, or give a loader of your own")
    return pil.open(path).convert("RGB")


def fetch_habana_unet_loader(*args: Any, **kwargs: Any) -> NoReturn:
    """The loader of volumes for segmentation, which needs the media pipeline.

    Raises:
        NotImplementedError: always.
    """
    refuse("habana_dataloader.fetch_habana_unet_loader", "use torch.utils.data.DataLoader over the same data set")
