"""Changes to functions of PyTorch's that scripts call by PyTorch's own names.

Those that the device itself needs are in `device/backend/patches.py`.
"""

from __future__ import annotations

from collections import deque

_name_stack: deque[str] = deque()
"""Names of the modules whose `forward` runs. Source lines are found by the stack here, so it stays empty."""

__all__ = ["_name_stack"]
