"""Collectives without their data, for whoever wants modelled times alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from device.backend import runtime

from .transport.native import SMALL_BYTES


class _Depth(threading.local):
    value = 0


_depth = _Depth()


@contextlib.contextmanager
def timing_only() -> Iterator[None]:
    """Within, the collectives and messages that this thread issues move no data: results are whatever the tensors held
    before.

    Ranks still meet, disagreements are noticed, and modelled times are the same. All ranks of a group must do so for
    the same collectives: one that does not would wait for data.
    """
    _depth.value += 1
    try:
        yield
    finally:
        _depth.value -= 1


def moves_data(nbytes: int = SMALL_BYTES + 1, is_on_card: bool = True) -> bool:
    """Does a collective issued here and now, of so many bytes at each rank, move data?

    The card has no values with HPUCLUSTER_NUMERICS=off; but what is small may be numbers that ranks tell each other,
    as DistributedDataParallel does, and goes with the header at no cost.
    """
    return _depth.value == 0 and (not is_on_card or runtime.settings().numerics or nbytes <= SMALL_BYTES)
