"""Which ranks of a group share a machine."""

from __future__ import annotations

from collections.abc import Sequence


class Layout:
    """`machines` lists the places in the group by machine, each in order, machines in the order of their first rank.

    `own` is this rank's place, `machine` the index of its machine, `index` its own among the ranks there (`mates`).
    `places[r]` are place and machine in other words: (machine, index).
    """

    def __init__(self, machines: Sequence[str], own: int) -> None:
        names = list(dict.fromkeys(machines))
        self.machines = [[place for place, name in enumerate(machines) if name == wanted] for wanted in names]
        self.own = own
        self.ranks = len(machines)
        self.machine = names.index(machines[own])
        self.mates = self.machines[self.machine]
        self.index = self.mates.index(own)
        self.is_first = self.machine == 0
        self.is_last = self.machine == len(names) - 1

    @property
    def others(self) -> list[int]:
        """Indices of the other machines."""
        return [machine for machine in range(len(self.machines)) if machine != self.machine]

    @property
    def far(self) -> list[int]:
        """Places on other machines."""
        return [place for machine in self.others for place in self.machines[machine]]

    @property
    def rails(self) -> int:
        """How many ranks every machine has at least."""
        return min(len(places) for places in self.machines)

    def machine_of(self, place: int) -> int:
        return next(index for index, places in enumerate(self.machines) if place in places)

    def counterpart(self, machine: int) -> int:
        """The place on another machine that takes what this rank has for all there."""
        places = self.machines[machine]
        return places[self.index % len(places)]

    def entrusted(self, machine: int, index: int) -> list[int]:
        """Places on another machine whose counterpart is the rank with `index` on this one, in order."""
        return self.machines[machine][index :: len(self.mates)]
