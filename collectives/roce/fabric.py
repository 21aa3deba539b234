"""What the process group asks of a model of the fabric."""

from __future__ import annotations

from typing import Protocol

ALL_REDUCE = "all_reduce"
REDUCE_SCATTER = "reduce_scatter"
ALL_GATHER = "all_gather"
BROADCAST = "broadcast"
REDUCE = "reduce"
GATHER = "gather"
SCATTER = "scatter"
ALL_TO_ALL = "all_to_all"
SEND_RECV = "send_recv"
BARRIER = "barrier"

PATTERNS = (
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    BROADCAST,
    REDUCE,
    GATHER,
    SCATTER,
    ALL_TO_ALL,
    SEND_RECV,
    BARRIER,
)


class FabricModel(Protocol):
    """Time of one collective among a fixed set of cards."""

    def seconds(self, pattern: str, nbytes: int) -> float:
        """Modelled seconds from the last rank's arrival to the end, on an otherwise idle fabric.

        `pattern` is one of `PATTERNS`. `nbytes` is S, the bytes that one rank holds: the whole tensor for
        all_reduce, reduce, broadcast and send_recv; the input for reduce_scatter and all_to_all (n blocks);
        the output for all_gather (n blocks); the tensor of one rank for gather and scatter; 0 for a barrier.
        """
        ...
