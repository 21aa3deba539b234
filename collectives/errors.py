"""Errors of the `hccl` process group. All are RuntimeErrors (torch's DistBackendError), so one `except` finds
them.
"""

from __future__ import annotations

import torch.distributed as dist


class CollectiveError(dist.DistBackendError):
    """Base: a collective or point-to-point transfer failed."""


class MismatchError(CollectiveError):
    """Ranks called different collectives, or the same one with different shapes, dtypes, roots or tags."""


class CollectiveTimeout(CollectiveError):
    """A rank did not join in time; the message names the operation and the missing ranks."""


class PeerLost(CollectiveError):
    """A rank that is needed has died, failed or left the group."""


class SharedMemoryError(CollectiveError):
    """A shared-memory segment cannot be made or opened."""


def collective_error(error: BaseException) -> CollectiveError:
    """A new CollectiveError that says the same: of the same kind, or with the kind of another error in its text."""
    if isinstance(error, CollectiveError):
        return type(error)(str(error))
    return CollectiveError(f"{type(error).__name__}: {error}")
