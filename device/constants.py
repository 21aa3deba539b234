"""Tensors on the card that a program promises not to change: the parameters of a model for inference.

The real bridge gives them to the compiler, which may fold them into the recipe, and can keep them in files. Here they
are remembered with a number, and written to files where that is asked for; numbers and times stay the same.
"""

from __future__ import annotations

import os
import shutil
import weakref
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from . import modules
from .errors import ConfigurationError


@dataclass
class Marking:
    """Which parameters `hpu_initialize` marks."""

    scales: bool = True
    others: bool = True


@dataclass
class Constant:
    """What is known of one tensor's memory."""

    const_id: int
    is_const_tensor: bool = True


marking = Marking()


class Constants:
    """The constants of this process, by the storage that holds them."""

    def __init__(self) -> None:
        self._count = 0
        self._by_storage: dict[int, Constant] = {}
        self._folder: Path | None = None
        self._compress = False
        self._waiting: list[tuple[Constant, weakref.ref[Any]]] = []

    @property
    def count(self) -> int:
        """Constants marked so far."""
        return self._count

    def mark(self, tensor: torch.Tensor) -> Constant:
        """Promise that the tensor's memory does not change; a second time it keeps its number."""
        storage = tensor.untyped_storage()
        known = self._by_storage.get(storage._cdata)
        if known is not None:
            known.is_const_tensor = True
            return known
        constant = Constant(self._count)
        self._count += 1
        self._by_storage[storage._cdata] = constant
        weakref.finalize(storage, self._by_storage.pop, storage._cdata, None)
        self._waiting.append((constant, weakref.ref(tensor)))
        return constant

    def find(self, tensor: torch.Tensor) -> Constant | None:
        """What is known of the tensor's memory, or None."""
        return self._by_storage.get(tensor.untyped_storage()._cdata)

    def serialize_to(self, folder: str, clear: bool, compress: bool) -> None:
        """Write constants to files in `folder` from now on; "" for no more.

        Raises:
            ConfigurationError: the folder cannot be made or emptied.
        """
        self._folder = None
        if not folder:
            return
        path = Path(folder).expanduser()
        try:
            if clear and path.exists():
                shutil.rmtree(path)
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"constants cannot be written to {folder}: {error.strerror}; give a folder that can be made"
            ) from error
        self._folder, self._compress = path, compress

    def used_by(self, recording: Any) -> list[tuple[Constant, torch.Tensor]]:
        """The constants that a graph uses and that are in no file yet; none where none are written."""
        if self._folder is None:
            return []
        addresses = {address for _, _, _, address in recording.buffers()}
        found, waiting = [], []
        for constant, reference in self._waiting:
            tensor = reference()
            if tensor is None:
                continue
            if tensor.untyped_storage().data_ptr() in addresses:
                found.append((constant, tensor))
            else:
                waiting.append((constant, reference))
        self._waiting = waiting
        return found

    def write(self, used: list[tuple[Constant, torch.Tensor]]) -> None:
        """Write constants, each to `<folder>/<rank>/const_<id>`; the graph has to have run."""
        if not used or self._folder is None:
            return
        folder = self._folder / str(modules.own_rank())
        folder.mkdir(parents=True, exist_ok=True)
        for constant, tensor in used:
            _write(folder / f"const_{constant.const_id}", tensor, self._compress)


def _write(path: Path, tensor: torch.Tensor, compress: bool) -> None:
    content = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.write_bytes(zlib.compress(content) if compress else content)
    os.replace(aside, path)


constants = Constants()
