"""The `hccl` process group of emulated cards: collectives through shared memory, and their modelled time.

The names come from `api` when they are first asked for, so that the fabric's model (`roce`) does without PyTorch.
"""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    # Where the device is loaded, so is `api`; then nothing is imported here, where our name may mean a user's module.
    api = globals().get("api") or importlib.import_module(f"{__name__}.api")
    return getattr(api, name)
