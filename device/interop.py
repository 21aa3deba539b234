"""What a communication layer needs of the card: its memory seen from the host, its clock, and fences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from .backend import runtime
from .card import current_card
from .environment import flag
from .fences import Extent, Fence
from .network import Transfer
from .timeline import STREAM


def has_card() -> bool:
    """Whether this process has used its card."""
    return current_card() is not None


def host_view(tensor: torch.Tensor, extent: Extent | None) -> torch.Tensor:
    """A CPU tensor over the same memory as an hpu tensor (sizes, strides and offset alike); pending work runs first.

    Writing to the view writes the hpu tensor. What is under way on its `extent` (None: it has no elements) is waited
    for.
    """
    card = runtime.card()
    card.flush("collective")
    if extent is not None:
        card.fences.before_extent(extent)
    bridge = runtime.bridge()
    bridge.require_residency(tensor)
    return bridge.host_alias(tensor)


def extent_of(tensor: torch.Tensor) -> Extent:
    """The card memory that a tensor with elements covers, whatever its strides."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    low = tensor.data_ptr()
    return Extent(tensor.untyped_storage().data_ptr(), low, low + (last + 1) * tensor.element_size())


def bytes_on_card(nbytes: int, dtype: torch.dtype) -> int:
    """How many bytes of the card's a tensor of that type takes on its way, which has `nbytes` here."""
    return nbytes // 2 if runtime.holds_in_32_bits(dtype) else nbytes


def add_fence(wait: Callable[[], None], extents: Sequence[Extent]) -> Fence:
    """Have `wait` called once before the card next uses that memory, in a recipe or for the host."""
    fence = Fence(wait, extents)
    runtime.card().fences.add(fence)
    return fence


def ddp_step(gradients: int) -> None:
    """A training step in DistributedDataParallel begins, which handles so many gradients."""
    runtime.card().timeline.reducer(gradients)


def collective_arrival(
    op: str, nbytes: int, group: str, ranks: tuple[int, ...], extents: Sequence[Extent] = ()
) -> float:
    """Modelled moment, in seconds, at which this card's data is ready for a collective of `ranks` on that memory;
    pending work runs first.
    """
    return runtime.card().collective_begins(op, nbytes, group, ranks, [extent.storage for extent in extents])


def collective_inside(op: str, nbytes: int, group: str, ranks: tuple[int, ...]) -> float:
    """As `collective_arrival`, of a collective that is part of the recipe that runs now."""
    return runtime.card().timeline.arrive_inside(op, nbytes, group, ranks)


def records_collectives() -> bool:
    """Whether collectives become part of the recorded graph: PT_HPU_ENABLE_LAZY_COLLECTIVES in lazy mode, where values
    are computed.
    """
    settings = runtime.settings()
    return settings.lazy and settings.numerics and flag("PT_HPU_ENABLE_LAZY_COLLECTIVES", False)


def run_recorded() -> None:
    """Run what was recorded so far."""
    runtime.card().flush("collective")


def collective_done(transfer: Transfer, waits: str = STREAM) -> None:
    """Account a collective; `waits` (STREAM, HOST or NOBODY) goes on after its end."""
    card = runtime.card()
    card.journal.communication.add(transfer, card.timeline.collective(transfer, card.stream, waits))


def collective_failed(op: str, group: str, ranks: tuple[int, ...]) -> None:
    """The oldest collective of that line that had begun will not end, for any of its ranks."""
    runtime.card().timeline.failed(op, group, ranks)


def collectives_missed(op: str, count: int, group: str, ranks: tuple[int, ...]) -> None:
    """This rank took part in that line's next `count` collectives with host memory, without its card."""
    runtime.card().timeline.missed(op, count, group, ranks)
