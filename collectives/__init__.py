"""The `hccl` process group of emulated cards: collectives through shared memory, their modelled time on the
RoCE fabric.
"""

from __future__ import annotations

from .communicator import close_all
from .errors import CollectiveError, CollectiveTimeout, MismatchError, PeerLost, SharedMemoryError
from .process_group import HcclProcessGroup
from .registration import register

__all__ = [
    "CollectiveError",
    "CollectiveTimeout",
    "HcclProcessGroup",
    "MismatchError",
    "PeerLost",
    "SharedMemoryError",
    "close_all",
    "register",
]
