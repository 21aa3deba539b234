"""One box: the direct algorithm over a full mesh.

Every pair of cards has ports of its own, so in one phase a card exchanges a part with each other card at
once, each part over its own pair. With r bytes per second per pair, a phase latency a, n cards and S bytes
per rank:

    reduce_scatter, all_gather, all_to_all   a + (S/n)/r
    all_reduce                               2 (a + (S/n)/r)     reduce-scatter, then all-gather
    reduce                                   2 (a + (S/n)/r)     reduce-scatter, then gather at the root
    broadcast                                a + S/r             up to 256 KB: the root sends all to each
                                             2 (a + (S/n)/r)     above: scatter, then all-gather
    gather, scatter, send_recv               a + S/r
    barrier                                  a

Source: HabanaAI/HCL (direct full mesh in a box, one phase for reduce-scatter or all-gather, two for all-
reduce); hccl_demo logs as checks (32 MiB on 8 Gaudi2 cards: 227.4 us). So bandwidth grows with the number of
cards that take part: links to absent cards stay idle. Left out: other traffic on the same ports, ports that
are down, HBM contention, slices' fill.
"""

from __future__ import annotations

from dataclasses import dataclass

from device.errors import ConfigurationError

from . import fabric
from .box import BoxSpec


@dataclass(frozen=True)
class DirectMesh:
    """`cards` cards of one box.

    Raises:
        ConfigurationError: more cards than the box has.
    """

    box: BoxSpec
    cards: int

    def __post_init__(self) -> None:
        if not 1 <= self.cards <= self.box.cards:
            raise ConfigurationError(
                f"a group of {self.cards} ranks needs as many cards, and a box {self.box.name} has {self.box.cards}; "
                "start fewer ranks"
            )

    def seconds(self, pattern: str, nbytes: int) -> float:
        """See `FabricModel.seconds`. A group of one card has nobody to talk to: 0."""
        if pattern not in fabric.PATTERNS:
            raise ValueError(f"unknown collective pattern {pattern!r}; known: {', '.join(fabric.PATTERNS)}")
        if nbytes < 0:
            raise ValueError(f"a collective cannot have {nbytes} bytes")
        if self.cards == 1:
            return 0.0
        latency, rate = self.box.roce.phase_latency_s, self.box.pair_rate
        share = latency + (nbytes / self.cards) / rate
        whole = latency + nbytes / rate
        if pattern in (fabric.REDUCE_SCATTER, fabric.ALL_GATHER, fabric.ALL_TO_ALL):
            return share
        if pattern in (fabric.ALL_REDUCE, fabric.REDUCE):
            return 2 * share
        if pattern == fabric.BROADCAST:
            return whole if nbytes <= self.box.hccl.broadcast_two_phase_bytes else 2 * share
        if pattern == fabric.BARRIER:
            return latency
        return whole
