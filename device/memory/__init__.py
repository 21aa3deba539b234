"""The card's memory: placement, statistics, what it holds for what, and running out of it."""

from __future__ import annotations

from .defragmentation import Defragmentation
from .hbm import Hbm
from .holding import COPIES, Copied, Holding, Shortage
from .limits import INITIAL_WORKSPACE, PoolLimits, read_limits
from .pool import GRANULE, RESERVED_BYTES, aligned
from .usage import Category

__all__ = [
    "COPIES",
    "GRANULE",
    "INITIAL_WORKSPACE",
    "RESERVED_BYTES",
    "Category",
    "Copied",
    "Defragmentation",
    "Hbm",
    "Holding",
    "PoolLimits",
    "Shortage",
    "aligned",
    "read_limits",
]
