"""The Gaudi software's Python names, answered by emulated cards."""

from __future__ import annotations

import os

from . import _shield


def __autoload() -> None:
    """Entry point of `torch.backends`: `import torch` alone gives `torch.hpu`. PT_HPU_AUTOLOAD=0 turns it off."""
    if os.environ.get("PT_HPU_AUTOLOAD", "").strip().lower() in ("0", "false", "no", "off"):
        return
    _shield.load("habana_frameworks.torch")
