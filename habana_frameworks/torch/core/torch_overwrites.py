"""Changes to functions of PyTorch's that scripts call by PyTorch's own names.

Those that the device itself needs are in `device/backend/patches.py` and `device/backend/checkpoints.py`.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from device.errors import ConfigurationError

_name_stack: deque[str] = deque()
"""Names of the modules whose `forward` runs. Source lines are found by the stack here, so it stays empty."""

PHASE = "P2P_DUMMY_MODE_PHASE"
FOLDER = "P2P_DUMMY_MODE_PATH"
_SAVE, _LOAD = 1, 2

__all__ = ["_name_stack", "overwrite_torch_functions"]


class RecordedMessages:
    """P2P_DUMMY_MODE_PHASE: what `dist.irecv` brings is saved (1), or taken from what was saved (2).

    Files are `<P2P_DUMMY_MODE_PATH><rank>_<number>.pt`. After the last saved one the first comes again.
    """

    def __init__(self, phase: int) -> None:
        self._phase = phase
        self._numbers = itertools.count()
        self._receive = dist.irecv

    def receive(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """`dist.irecv`, saved or replaced."""
        work = self._receive(tensor, *args, **kwargs)
        path = self._path(next(self._numbers))
        if self._phase == _SAVE:
            torch.save(tensor.cpu(), path)
        else:
            tensor.copy_(torch.load(self._existing(path), map_location="cpu"))
        return work

    @staticmethod
    def _path(number: int) -> Path:
        return Path(f"{os.environ.get(FOLDER, './')}{dist.get_rank()}_{number}.pt")

    def _existing(self, path: Path) -> Path:
        if path.exists():
            return path
        self._numbers = itertools.count(1)
        first = self._path(0)
        if not first.exists():
            raise ConfigurationError(f"{PHASE}={_LOAD}: there is no {first}; save messages first, with {PHASE}={_SAVE}")
        return first


def overwrite_torch_functions() -> None:
    """Install what the environment asks for.

    Raises:
        ConfigurationError: P2P_DUMMY_MODE_PHASE is no phase.
    """
    text = os.environ.get(PHASE, "") or "0"
    if text not in ("0", str(_SAVE), str(_LOAD)):
        raise ConfigurationError(f"{PHASE}={text!r} is no phase; use 1 to save messages, 2 to load them, 0 for neither")
    if text != "0":
        dist.irecv = RecordedMessages(int(text)).receive
