"""The network of a job: one kind of box, the fabric that joins boxes, the state of links, the algorithm.

    network = Network.of_environment(card, ranks=16)
    group = network.group(list(places(range(16), {}, network.cards_per_box).values()))
    group.seconds("all_reduce", 1 << 30)

Environment:

    HPUCLUSTER_FABRIC         a fabric of configs/fabrics, or the path of a file of one's own; default: the smallest of
                              one-box, leaf and leaf-spine that has boxes for all ranks
    HPUCLUSTER_CARDS_PER_BOX  ranks in each box; default: as many as the box has cards
    HPUCLUSTER_LINKS          states of links (see `links.py`); they come after those of the fabric file
    HPUCLUSTER_ALGORITHM      auto, direct, hierarchical, ring or halving_doubling; default auto
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from device.card_records import CardPorts
from device.errors import ConfigurationError
from device.spec import CardSpec

from .algorithms import AUTO, NAMES
from .box import BoxSpec, box_of, load_box
from .group import Group
from .links import parse_states, split_entries
from .messages import Message, message_ends
from .place import Place
from .plan import Phase
from .topology import OF_THE_CARD, Fabric, FabricSpec, fabric_of, load_fabric
from .wiring import Wiring

__all__ = ["Group", "Message", "Network", "Phase"]

DEFAULTS = ("one-box", "leaf", "leaf-spine")


@dataclass(frozen=True)
class Network:
    """`links`: states of links besides those of the fabric. Immutable.

    Raises:
        ConfigurationError: an unknown algorithm, more cards in a box than it has, a fabric that does not fit the box, a
        state of a link that does not exist.
    """

    box: BoxSpec
    fabric: FabricSpec
    cards_per_box: int
    links: tuple[str, ...] = ()
    algorithm: str = AUTO

    def __post_init__(self) -> None:
        if self.algorithm not in NAMES:
            raise ConfigurationError(
                f"HPUCLUSTER_ALGORITHM={self.algorithm!r} is not an algorithm; choose one of {', '.join(NAMES)}"
            )
        if not 1 <= self.cards_per_box <= self.box.cards:
            raise ConfigurationError(
                f"{self.cards_per_box} cards in each box are wanted (HPUCLUSTER_CARDS_PER_BOX), and a box "
                f"{self.box.name} has {self.box.cards}; use 1 to {self.box.cards}"
            )
        self.check()

    @classmethod
    def of_environment(cls, spec: CardSpec, ranks: int | None) -> Network:
        """The network that the environment describes, for a job of `ranks` ranks on cards of one kind. None: of as many
        as the fabric holds, the largest of the default ones.

        Raises:
            ConfigurationError: a variable or a file that cannot be used (named); too few boxes for the ranks.
        """
        named = os.environ.get("HPUCLUSTER_FABRIC", "").strip()
        fabric = load_fabric(named) if named else None
        box = load_box(spec.box if fabric is None or fabric.box == OF_THE_CARD else fabric.box)
        cards_per_box = _cards_per_box(box)
        boxes = None if ranks is None else -(-ranks // cards_per_box)
        fabric = fabric or default_fabric(box, boxes)
        if boxes is not None and boxes > fabric.boxes:
            raise ConfigurationError(
                f"{ranks} ranks, {cards_per_box} in each box, need {boxes} boxes, and fabric {fabric.name} has "
                f"{fabric.boxes}; start fewer ranks, or choose a larger fabric: HPUCLUSTER_FABRIC, a name or a file"
            )
        return cls(
            box,
            fabric,
            cards_per_box,
            tuple(split_entries(os.environ.get("HPUCLUSTER_LINKS", ""))),
            os.environ.get("HPUCLUSTER_ALGORITHM", "").strip() or AUTO,
        )

    def to_plain(self) -> dict[str, Any]:
        """Everything as plain data, from which `from_plain` makes the network again without any file."""
        return {
            "box": self.box.to_plain(),
            "fabric": self.fabric.to_plain(),
            "cards_per_box": self.cards_per_box,
            "links": list(self.links),
            "algorithm": self.algorithm,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Network:
        """Raises ConfigurationError if this is not what `to_plain` gives."""
        where = "the network of a report"
        try:
            box, fabric = plain["box"], plain["fabric"]
            cards_per_box, links, algorithm = plain["cards_per_box"], plain["links"], plain["algorithm"]
            if not (isinstance(box, Mapping) and isinstance(fabric, Mapping) and type(cards_per_box) is int):
                raise TypeError("its box, fabric or cards_per_box is of another type")
            if not all(isinstance(entry, str) for entry in (*links, algorithm)):
                raise TypeError("its links or algorithm are no text")
        except (KeyError, TypeError) as error:
            raise ConfigurationError(f"{where} cannot be read ({error}); make the report anew") from error
        return cls(
            box_of(box, f"{where}: box"), fabric_of(fabric, f"{where}: fabric"), cards_per_box, tuple(links), algorithm
        )

    def on(self, spec: CardSpec) -> Network:
        """The same boxes, switches and algorithm with another kind of card in the box that it comes in.

        States of leaf and spine links stay; those of ports do not, for another card's ports have other numbers.

        Raises:
            ConfigurationError: the other card's box has too few cards, or does not fit the fabric.
        """
        box = load_box(spec.box)
        fabric = self.fabric if box.is_mesh or self.fabric.leaves else load_fabric(DEFAULTS[1])
        return replace(
            self,
            box=box,
            fabric=replace(fabric, box=OF_THE_CARD, links=_of_switches(fabric.links)),
            links=tuple(_of_switches(self.links)),
        )

    def group(self, places: Sequence[Place]) -> Group:
        """The model of a group of cards; the same one for the same places.

        Raises:
            ConfigurationError: see `Group`.
        """
        key = tuple(places)
        known = self._groups.get(key)
        if known is None:
            known = self._groups[key] = Group(self._wiring, self.algorithm, key)
        return known

    def message_ends(self, messages: Sequence[Message]) -> list[float]:
        """When messages between cards come in that share the network; see `messages.py`."""
        return message_ends(self._wiring, messages)

    def ports(self, place: Place) -> CardPorts:
        """The ports of a card as management tools show them."""
        count = self.box.ports_per_card
        down = [port for port in range(count) if not self._wiring.is_up(place, port)]
        return CardPorts(count, list(self.box.scale_out[place.module]), down)

    def check(self) -> None:
        """Raise ConfigurationError for what does not fit together."""
        _ = self._wiring

    @cached_property
    def _wiring(self) -> Wiring:
        states = [
            *parse_states(self.fabric.links, self.cards_per_box, f"fabric {self.fabric.name}: links"),
            *parse_states(self.links, self.cards_per_box, "HPUCLUSTER_LINKS"),
        ]
        return Wiring(Fabric(self.fabric, self.box), states)

    @cached_property
    def _groups(self) -> dict[tuple[Place, ...], Group]:
        return {}


def default_fabric(box: BoxSpec, boxes: int | None) -> FabricSpec:
    """The smallest of the project's own fabrics that has so many boxes; the largest if none has, or for None."""
    fabrics = [load_fabric(name) for name in DEFAULTS]
    if boxes is None:
        return fabrics[-1]
    fitting = [fabric for fabric in fabrics if fabric.boxes >= boxes and (box.is_mesh or fabric.leaves)]
    return fitting[0] if fitting else fabrics[-1]


def _cards_per_box(box: BoxSpec) -> int:
    text = os.environ.get("HPUCLUSTER_CARDS_PER_BOX", "").strip()
    if not text:
        return box.cards
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= box.cards):
        raise ConfigurationError(
            f"HPUCLUSTER_CARDS_PER_BOX={text!r} is not a number of cards of a box {box.name}; use 1 to {box.cards}"
        )
    return int(text)


def _of_switches(entries: Sequence[str]) -> list[str]:
    return [entry for entry in entries if "/" in entry.partition("=")[0]]
