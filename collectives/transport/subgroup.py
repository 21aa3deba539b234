"""Some ranks of a group, seen as a group of their own: those that share a machine."""

from __future__ import annotations

from collections.abc import Sequence

from .membership import Membership, Peer
from .shared_memory import Segment


class Subgroup:
    """What a `SharedTransport` needs of a `Membership`, for the ranks at `places` of a group."""

    def __init__(self, membership: Membership, places: Sequence[int]) -> None:
        self._membership = membership
        self._places = list(places)
        self.own = self._places.index(membership.own)
        self.peers: list[Peer] = [membership.peers[place] for place in places]

    def offer(self, label: str, segment: Segment, receivers: Sequence[int], deadline: float, what: str) -> None:
        """As `Membership.offer`."""
        self._membership.offer(label, segment, [self._places[rank] for rank in receivers], deadline, what)

    def accept(self, label: str, owner: int, deadline: float, what: str) -> Segment:
        """As `Membership.accept`."""
        return self._membership.accept(label, self._places[owner], deadline, what)

    def name_ranks(self, ranks: Sequence[int]) -> str:
        """As `Membership.name_ranks`."""
        return self._membership.name_ranks([self._places[rank] for rank in ranks])
