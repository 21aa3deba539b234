"""Whether `import torch` alone loads the bridge, and whether it is loaded."""

from __future__ import annotations

import os

OFF = ("0", "false", "no", "off")

is_loaded = False
"""Set by `habana_frameworks.torch`."""


def is_autoload_enabled() -> bool:
    """Whether `import torch` gives `torch.hpu`: unless PT_HPU_AUTOLOAD=0."""
    return os.environ.get("PT_HPU_AUTOLOAD", "").strip().lower() not in OFF
