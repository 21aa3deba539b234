"""The public names of the package: what needs PyTorch."""

from __future__ import annotations

import torch  # noqa: F401  first: loading torch may load the hpu device, which asks for `register`

from .communicator import close_all
from .data_movement import timing_only
from .emulation import distributed_emulation_apply_if_enabled
from .errors import CollectiveError, CollectiveTimeout, MismatchError, PeerLost, SharedMemoryError
from .gradients import all_reduce_gradients
from .process_group import HcclProcessGroup
from .registration import register
from .transport.shared_memory import remove_leftovers

__all__ = [
    "CollectiveError",
    "CollectiveTimeout",
    "HcclProcessGroup",
    "MismatchError",
    "PeerLost",
    "SharedMemoryError",
    "all_reduce_gradients",
    "close_all",
    "distributed_emulation_apply_if_enabled",
    "register",
    "remove_leftovers",
    "timing_only",
]
