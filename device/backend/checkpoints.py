"""`torch.save` and `torch.load` with tensors on the card, and checkpoints that another device has written.

In lazy mode the real bridge copies tensors to the host before it saves them, and loads to the host unless
`map_location` says otherwise. So a checkpoint needs no card to be read, and one from a GPU loads as well.
Outside lazy mode PyTorch's own rules hold: a checkpoint names the device that it came from, and goes back there.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ..errors import HpuError

PRIORITY = 5  # before PyTorch's own entries, which begin at 10
OTHER_DEVICES = ("cuda", "xpu", "mps", "npu", "xla", "mlu", "musa", "maia", "mtia")

_load = torch.load


class CheckpointError(HpuError):
    """A checkpoint holds tensors of a device that this process does not have."""


def install(lazy: bool) -> None:
    """Have PyTorch's serialization follow the rules above; `lazy`: those of lazy mode."""
    torch.serialization.register_package(PRIORITY, _tag_as_host if lazy else _no_tag, _restore)
    if lazy:
        torch.load = _load_to_host


def _tag_as_host(storage: Any) -> str | None:
    """The location to write for a storage: the host's for one on the card; None: PyTorch decides."""
    return "cpu" if storage.device.type == "hpu" else None


def _no_tag(storage: Any) -> None:
    return None


def _restore(storage: Any, location: str) -> None:
    """Refuse what no other entry could restore; None: another entry does it."""
    kind = str(location).partition(":")[0]
    if kind not in OTHER_DEVICES:
        return
    module = getattr(torch, kind, None)
    is_there = getattr(module, "is_available", None)
    if is_there is None or not is_there():
        raise CheckpointError(
            f"the checkpoint was saved from {location}, which this process does not have; load it with "
            'torch.load(..., map_location="hpu"), or map_location="cpu" to keep it on the host'
        )


@functools.wraps(torch.load)
def _load_to_host(f: Any, map_location: Any = None, *arguments: Any, **options: Any) -> Any:
    return _load(f, "cpu" if map_location is None else map_location, *arguments, **options)
