"""Who exchanges messages with whom in `send_recv` and `scale_validation`."""

from __future__ import annotations

from collections.abc import Iterator

from .settings import Settings

Pair = tuple[int, int]
"""(sender, receiver)."""


def partners(settings: Settings, rank: int) -> Pair:
    """(whom to receive from, whom to send to).

    In one box neighbours swap, 0 with 1, 2 with 3, and an odd last rank is its own partner. Across boxes each sends to
    the rank of its place in the next one, in a ring.
    """
    boxes = -(-settings.nranks // settings.scaleup_group_size)
    if boxes == 1:
        partner = rank ^ 1
        return (partner, partner) if partner < settings.nranks else (rank, rank)
    per_box = settings.nranks // boxes
    box, place = rank // settings.scaleup_group_size, rank % per_box
    return (box - 1) % boxes * per_box + place, (box + 1) % boxes * per_box + place


def scale_up_pairs(settings: Settings) -> Iterator[Pair]:
    """All pairs within a scale-up group."""
    group = settings.scaleup_group_size
    for sender in range(settings.nranks):
        begin = sender // group * group
        yield from ((sender, peer) for peer in range(begin, min(begin + group, settings.nranks)) if peer != sender)


def scale_out_pairs(settings: Settings) -> Iterator[Pair]:
    """All pairs of the same place in different groups."""
    group = settings.scaleup_group_size
    for sender in range(settings.nranks):
        yield from ((sender, peer) for peer in range(sender % group, settings.nranks, group) if peer != sender)
