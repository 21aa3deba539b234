"""Bandwidths as hccl_demo reports them, of a collective that took some time.

    algorithm bandwidth = bytes of one rank's input / seconds
    network bandwidth   = algorithm bandwidth x factor

Source of the factors: README of HabanaAI/hccl_demo. They count what one card sends, so that a full mesh shows its line
rate whatever the collective.
"""

from __future__ import annotations

from . import fabric


def network_factor(pattern: str, ranks: int) -> float:
    """Network bandwidth over algorithm bandwidth among `ranks` cards. 1 where hccl_demo knows no other.

    Raises:
        ValueError: an unknown pattern, or no ranks.
    """
    if pattern not in fabric.PATTERNS:
        raise ValueError(f"unknown collective pattern {pattern!r}; known: {', '.join(fabric.PATTERNS)}")
    if ranks < 1:
        raise ValueError(f"a collective has at least one rank; got {ranks}")
    if pattern == fabric.ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    if pattern in (fabric.REDUCE_SCATTER, fabric.ALL_TO_ALL):
        return (ranks - 1) / ranks
    if pattern == fabric.ALL_GATHER:
        return float(ranks - 1)
    return 1.0


def input_bytes(pattern: str, nbytes: int, ranks: int) -> float:
    """Bytes that one rank puts in, of a collective of `nbytes` as `FabricModel.seconds` counts them: all_gather is
    counted by its output there.
    """
    return nbytes / ranks if pattern == fabric.ALL_GATHER else float(nbytes)


def algorithm_bandwidth(pattern: str, nbytes: int, seconds: float, ranks: int) -> float:
    """Bytes per second of one rank's input; 0 where no time passes. `nbytes` as `FabricModel.seconds` counts them."""
    return input_bytes(pattern, nbytes, ranks) / seconds if seconds > 0 else 0.0


def network_bandwidth(pattern: str, nbytes: int, seconds: float, ranks: int) -> float:
    """Bytes per second that one card sends, by hccl_demo's factors."""
    return algorithm_bandwidth(pattern, nbytes, seconds, ranks) * network_factor(pattern, ranks)
