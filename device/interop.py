"""What a communication layer needs of the card: its memory seen from the host, its clock, and fences."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .backend import runtime


def host_view(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor over the same memory as an hpu tensor (sizes, strides and offset alike); pending work runs first.

    A CPU tensor is returned as it is. Writing to the view writes the hpu tensor.
    """
    if tensor.device.type != "hpu":
        return tensor
    card = runtime.card()
    card.flush("collective")
    bridge = runtime.bridge()
    bridge.require_residency(tensor)
    return bridge.host_alias(tensor)


def add_fence(wait: Callable[[], None]) -> None:
    """Have `wait` called once before the card next runs a recipe or is read by the host."""
    runtime.card().add_fence(wait)


def collective_arrival(op: str, ranks: tuple[int, ...]) -> float:
    """Modelled moment, in seconds, at which this card's data is ready for a collective of `ranks`; pending work runs
    first.
    """
    return runtime.card().collective_begins(op, ranks)


def collective_done(op: str, nbytes: int, ranks: tuple[int, ...], begin: float, end: float, waited: float) -> None:
    """Account a collective of `ranks`: from its own arrival `begin` to its `end`, of which `waited` for the slowest."""
    card = runtime.card()
    card.timeline.collective(op, nbytes, ranks, begin, end, waited)
    journal = card.journal
    journal.collectives += 1
    journal.collective_bytes += nbytes
    journal.collective_seconds += end - begin
    journal.collective_waited += waited
