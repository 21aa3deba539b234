"""Whether fused attention computes its probabilities again in the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_recompute = False


def enable_recompute_sdp(enable: bool = True) -> None:
    """For calls of FusedSDPA that do not say themselves."""
    global _recompute
    _recompute = bool(enable)


def recompute_sdp_enabled() -> bool:
    """What holds now; at first False."""
    return _recompute


@contextmanager
def sdp_kernel(enable_recompute: bool = True) -> Iterator[dict[str, Any]]:
    """Within: as `enable_recompute` says; afterwards as before."""
    before = _recompute
    enable_recompute_sdp(enable_recompute)
    try:
        yield {}
    finally:
        enable_recompute_sdp(before)
