"""Which way a channel goes."""

from __future__ import annotations

from ..guard import Guard
from .channel import ReceiveEnd, SendEnd
from .membership import Membership
from .shared_channel import SharedReceiveEnd, SharedSendEnd
from .wire_channel import WireReceiveEnd, WireSendEnd


def open_send_end(membership: Membership, group: str, peer: int, guard: Guard) -> SendEnd:
    """This rank's end of the channel to `peer`, a place in the group."""
    if membership.lanes is not None and membership.is_far(peer):
        return WireSendEnd(membership.lanes, peer)
    return SharedSendEnd.open(membership, group, peer, guard)


def open_receive_end(membership: Membership, peer: int, guard: Guard) -> ReceiveEnd:
    """This rank's end of the channel from `peer`, a place in the group."""
    if membership.lanes is not None and membership.is_far(peer):
        return WireReceiveEnd(membership.lanes, peer)
    return SharedReceiveEnd.open(membership, peer, guard)
