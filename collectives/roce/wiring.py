"""Which links a message takes from one card to another, and what they carry.

Links have a direction: `Link("out", ...)` and `Link("in", ...)` are the two of a card's port, `up` and `down` those
between a leaf and a spine. Two cards of a box use their own cables. Else a message leaves by the ports that lead out of
the box, each to the same-numbered one at the other card (the first to the first, and so on), through one leaf or
leaf, spine, leaf.

A message is divided evenly over the ports that are up at both ends, as HCCL divides it by the number of ports; so one
port at half its rate holds back its neighbours, and one that is down does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from device.errors import ConfigurationError

from .box import NOWHERE, BoxSpec
from .links import PortState, SwitchState
from .place import Place
from .topology import Fabric

OUT, IN, UP, DOWN = "out", "in", "up", "down"


class Link(NamedTuple):
    """One direction of a cable. Of a card's port: direction, box, module, port. Of leaf and spine: direction, their
    numbers, 0.
    """

    direction: str
    one: int
    two: int
    port: int

    @property
    def is_port(self) -> bool:
        return self.direction in (OUT, IN)


class Route(NamedTuple):
    """Scale-out ports (counted from 0) that two cards share, each with the leaves at both ends."""

    lanes: tuple[tuple[int, int, int], ...]

    def hops(self) -> int:
        """Switches on the longest lane."""
        return max(1 if here == there else 3 for _, here, there in self.lanes)


Attachment = tuple[int, ...]  # for each scale-out port of a card the leaf that it reaches, -1 for none


class Wiring:
    """Box, fabric and states of links together.

    Raises:
        ConfigurationError: a state of a link that does not exist.
    """

    def __init__(self, fabric: Fabric, states: Sequence[PortState | SwitchState]) -> None:
        self.fabric = fabric
        self.box: BoxSpec = fabric.box
        self._ports = [state for state in states if isinstance(state, PortState)]
        self._switches = [state for state in states if isinstance(state, SwitchState)]
        for state in states:
            self._check(state)
        self._attachments: dict[Place, Attachment] = {}
        self._routes: dict[tuple[Attachment, Attachment], Route] = {}
        self._spines: dict[tuple[int, int], tuple[int, ...]] = {}
        self.port_factor = lru_cache(maxsize=None)(self._port_factor)

    def rate(self, link: Link) -> float:
        """Bytes on the wire per second that the link carries."""
        line = self.box.ports.line_rate_bytes_per_s * self.box.roce.efficiency
        if link.is_port:
            return line * self.port_factor(link.one, link.two, link.port)
        return line * self.fabric.uplink_share(link.one) * self._switch_factor(link.one, link.two)

    def name(self, link: Link) -> str:
        """The link as users write it: `0.3:8 out`, `leaf1/spine0 up`."""
        if link.is_port:
            return f"{link.one}.{link.two}:{link.port} {link.direction}"
        return f"{self.fabric.leaves[link.one]}/{self.fabric.spines[link.two]} {link.direction}"

    def domain(self, place: Place) -> tuple[int, int]:
        """Cards of one domain reach each other by cables of their own: a box, or a single card where it has none."""
        return (place.box, -1 if self.box.pair_ports else place.module)

    def cables(self, one: Place, other: Place) -> list[tuple[int, int]]:
        """Ports at both ends of the cables between two cards of a box that are up.

        Raises:
            ConfigurationError: there are none.
        """
        ends = self.box.pair_ports[one.module, other.module]
        up = [(port, far) for port, far in ends if self._is_cable_up(one.box, (one.module, port), (other.module, far))]
        if not up:
            ports = " and ".join(f"{one}:{port} to {other}:{far}" for port, far in ends)
            raise ConfigurationError(
                f"cards {one} and {other} (box.module) have no link that is up: {ports}; bring one up in "
                "HPUCLUSTER_LINKS or in the links of the fabric file, or leave one of the two cards out"
            )
        return up

    def is_up(self, place: Place, port: int) -> bool:
        """Whether a card's port has a link: a cable whose ends are both up, or a way out of the box that is up."""
        if port in self.box.scale_out[place.module]:
            return bool(self.port_factor(place.box, place.module, port))
        entry = self.box.ports.map[place.module][port]
        if entry == NOWHERE:
            return False
        peer, far = (int(part) for part in entry.split(":"))
        return self._is_cable_up(place.box, (place.module, port), (peer, far))

    def _is_cable_up(self, box: int, one: tuple[int, int], other: tuple[int, int]) -> bool:
        return bool(self.port_factor(box, *one) and self.port_factor(box, *other))

    def attachment(self, place: Place) -> Attachment:
        known = self._attachments.get(place)
        if known is None:
            ports = self.box.scale_out[place.module]
            known = self._attachments[place] = tuple(
                self.fabric.leaf_of.get((place.box, place.module, number), -1)
                if self.port_factor(place.box, place.module, port)
                else -1
                for number, port in enumerate(ports)
            )
        return known

    def route(self, one: Place, other: Place) -> Route:
        """The way between two cards of different domains.

        Raises:
            ConfigurationError: there is none.
        """
        ends = (self.attachment(one), self.attachment(other))
        known = self._routes.get(ends)
        if known is None:
            lanes = tuple(
                (number, here, there)
                for number, (here, there) in enumerate(zip(*ends, strict=True))
                if here >= 0 and there >= 0 and (here == there or self.spines(here, there))
            )
            if not lanes:
                raise ConfigurationError(
                    f"cards {one} and {other} (box.module) have no way to each other in fabric "
                    f"{self.fabric.spec.name}: no two of their scale-out ports that are up (the first with the first, "
                    "and so on) meet at a leaf or through spines; bring a link up in HPUCLUSTER_LINKS or in the links "
                    "of the fabric file, or choose another fabric (HPUCLUSTER_FABRIC)"
                )
            known = self._routes[ends] = Route(lanes)
        return known

    def spines(self, one: int, other: int) -> tuple[int, ...]:
        """Spines that two leaves both reach."""
        known = self._spines.get((one, other))
        if known is None:
            known = self._spines[one, other] = tuple(
                spine
                for spine in range(len(self.fabric.spines))
                if self._switch_factor(one, spine) and self._switch_factor(other, spine)
            )
        return known

    def check_place(self, place: Place) -> None:
        """Raise ConfigurationError if there is no such card."""
        if not 0 <= place.box < self.fabric.spec.boxes:
            raise ConfigurationError(
                f"a card of box {place.box} is wanted, and fabric {self.fabric.spec.name} has {self.fabric.spec.boxes} "
                "box(es), counted from 0; start fewer ranks or choose a larger fabric (HPUCLUSTER_FABRIC)"
            )
        if not 0 <= place.module < self.box.cards:
            raise ConfigurationError(
                f"module {place.module} of box {place.box} is wanted, and a box {self.box.name} has {self.box.cards} "
                "cards, counted from 0"
            )

    def _port_factor(self, box: int, module: int, port: int) -> float:
        factor = 1.0
        for state in self._ports:
            if state.fits(box, module, port):
                factor = state.rate
        return factor

    def _switch_factor(self, leaf: int, spine: int) -> float:
        factor = 1.0
        for state in self._switches:
            if state.fits(self.fabric.leaves[leaf], self.fabric.spines[spine]):
                factor = state.rate
        return factor

    def _check(self, state: PortState | SwitchState) -> None:
        remedy = "correct HPUCLUSTER_LINKS or the links of the fabric file"
        if isinstance(state, PortState):
            for kind, number, count in (
                ("box", state.box, self.fabric.spec.boxes),
                ("module", state.module, self.box.cards),
                ("port", state.port, self.box.ports_per_card),
            ):
                if number is not None and number >= count:
                    raise ConfigurationError(
                        f"a link's state names {kind} {number}, and there are {count}, counted from 0 (box "
                        f"{self.box.name}, fabric {self.fabric.spec.name}); {remedy}"
                    )
            return
        for name, names in ((state.leaf, self.fabric.leaves), (state.spine, self.fabric.spines)):
            if name is not None and name not in names:
                known = f"{names[0]} to {names[-1]}" if names else "there is none"
                raise ConfigurationError(
                    f"a link's state names switch {name!r}, which fabric {self.fabric.spec.name} has not ({known}); "
                    f"{remedy}"
                )
