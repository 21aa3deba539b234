"""The network that this process's job runs on, and where its ranks stand in it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from device.presence import tell_ports
from device.spec import chosen_card

from .roce.network import Group, Network
from .roce.place import Place, places
from .timing import Line
from .transport.membership import Membership


class JobNetwork:
    """Lines between ranks. `modules`: the modules that ranks report, of those known."""

    def __init__(self, network: Network, modules: Mapping[int, int | None]) -> None:
        self.network = network
        self._modules = dict(modules)
        self._places = places(sorted(modules), modules, network.cards_per_box)
        self._groups: dict[tuple[Place, ...], Group] = {}

    def place(self, rank: int) -> Place:
        """Where a rank stands, one whose module nobody has told included."""
        return self._places.get(rank) or places([rank], {}, self.network.cards_per_box)[rank]

    def knows(self, modules: Mapping[int, int | None]) -> bool:
        """Whether these ranks are some of its own, and stand where it has them."""
        return modules.items() <= self._modules.items()

    def line(self, label: str, ranks: Sequence[int], own: int, directions: Sequence[str] = ("out", "in")) -> Line:
        """A line between `ranks`, of which `own` is this process."""
        stand = tuple(self.place(rank) for rank in ranks)
        group = self._groups.get(stand)
        if group is None:
            group = self._groups[stand] = self.network.group(stand)
        return Line(group, label, ranks, self.place(own), directions)


_job: JobNetwork | None = None


def job_network(membership: Membership) -> JobNetwork:
    """The network of the job to which a group's ranks belong. The first group of a process, which has them all, settles
    where each of them stands, and with it what the public record of this process's card says of its ports.

    Raises:
        ConfigurationError: the description of the box or of the fabric cannot be used, or has too few cards.
    """
    global _job
    modules = {peer.rank: int(peer.module) if peer.module.isdecimal() else None for peer in membership.peers}
    if _job is None or not _job.knows(modules):
        ranks = max(int(os.environ.get("WORLD_SIZE") or 0), max(modules) + 1)
        _job = JobNetwork(Network.of_environment(chosen_card(), ranks), modules)
        tell_ports(_job.network.ports(_job.place(membership.peers[membership.own].rank)))
    return _job
