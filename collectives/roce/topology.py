"""What joins boxes: leaf and spine switches. Read from `configs/fabrics/*.toml`.

A leaf takes ports of cards; leaves are joined by the spines, over which traffic spreads evenly (balanced equal-cost
paths). Switches lose nothing and never block by themselves: what limits is a card's port, or the links between leaf and
spine, which together carry what the leaf's ports towards cards carry, divided by `oversubscription`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from typing import Annotated, Any

from device.description import Delay, Limits, Share, parse_table, read_table
from device.errors import ConfigurationError

from .box import BoxSpec, described

OF_THE_CARD = "card"
Ratio = Annotated[float, Limits(above=0, at_most=1000)]
Boxes = Annotated[int, Limits(above=0, at_most=100_000)]


@dataclass(frozen=True)
class SwitchSpec:
    """`hop_latency_s` and `hop_efficiency` of each switch on the way; number of `spines`, 0 where leaves are not
    joined; `oversubscription` of a leaf.
    """

    hop_latency_s: Delay
    hop_efficiency: Share
    spines: int
    oversubscription: Ratio


@dataclass(frozen=True)
class LeafSpec:
    """Leaf switches and what is plugged into them.

    `boxes`: `*`, or a list such as `0-3,7`; `0-127/4` makes one leaf for every four boxes. `cards`: of each of these
    boxes. `scale_out`: of each card's ports that leave the box, counted from 0 in the order of their numbers.
    """

    name: str
    boxes: str
    cards: str
    scale_out: str


@dataclass(frozen=True)
class FabricSpec:
    """`boxes` boxes of kind `box` (`card`: the one that the job's card stands in), the switches between them, and the
    states of links (see `links.py`).
    """

    name: str
    box: str
    boxes: Boxes
    links: list[str]
    switches: SwitchSpec
    leaves: tuple[LeafSpec, ...]

    def to_plain(self) -> dict[str, Any]:
        """The fabric as a table, from which `fabric_of` makes it again."""
        return {**asdict(self), "leaves": [asdict(leaf) for leaf in self.leaves]}


def load_fabric(name: str) -> FabricSpec:
    """The description of a fabric that comes with the project, or of a file given by path.

    Raises:
        ConfigurationError: unknown fabric, unreadable file, unknown, missing or bad key.
    """
    path = described(name, "fabric", "fabrics")
    return fabric_of(read_table(path, "fabric"), str(path))


def fabric_of(table: Mapping[str, Any], where: str) -> FabricSpec:
    """A fabric from its table; `where` names it in messages. Raises ConfigurationError."""
    rest = dict(table)
    leaves = rest.pop("leaves", [])
    if not isinstance(leaves, list) or not all(isinstance(leaf, dict) for leaf in leaves):
        raise ConfigurationError(f"{where}: [[leaves]] must be tables; got {leaves!r}")
    parsed = tuple(
        parse_table(LeafSpec, leaf, f"{where}: [[leaves]] number {number}") for number, leaf in enumerate(leaves, 1)
    )
    spec: _WithoutLeaves = parse_table(_WithoutLeaves, rest, where)
    return FabricSpec(spec.name, spec.box, spec.boxes, spec.links, spec.switches, parsed)


@dataclass(frozen=True)
class _WithoutLeaves:
    name: str
    box: str
    boxes: Boxes
    links: list[str]
    switches: SwitchSpec


@dataclass(frozen=True)
class Fabric:
    """A fabric and the kind of box in it.

    Raises:
        ConfigurationError: a leaf takes a port that is taken, or that no card has; a box that does not exist; two boxes
        that are not connected.
    """

    spec: FabricSpec
    box: BoxSpec

    def __post_init__(self) -> None:
        self._check_connected()

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        return self._plugged[0]

    @cached_property
    def spines(self) -> tuple[str, ...]:
        return tuple(f"spine{number}" for number in range(self.spec.switches.spines))

    @cached_property
    def leaf_of(self) -> dict[tuple[int, int, int], int]:
        """Index of the leaf at (box, card, number of the card's scale-out port)."""
        return self._plugged[1]

    def uplink_share(self, leaf: int) -> float:
        """Line rates of one port that the link between a leaf and one spine carries, one way."""
        switches = self.spec.switches
        return self._ports_at[leaf] / switches.oversubscription / switches.spines

    @cached_property
    def _ports_at(self) -> dict[int, int]:
        counts = dict.fromkeys(range(len(self.leaves)), 0)
        for leaf in self.leaf_of.values():
            counts[leaf] += 1
        return counts

    @cached_property
    def _plugged(self) -> tuple[tuple[str, ...], dict[tuple[int, int, int], int]]:
        names: list[str] = []
        plugged: dict[tuple[int, int, int], int] = {}
        for number, leaf in enumerate(self.spec.leaves, 1):
            where = f"fabric {self.spec.name}: [[leaves]] number {number}"
            groups = _box_groups(leaf.boxes, self.spec.boxes, f"{where}: boxes")
            cards = _numbers(leaf.cards, self.box.cards, "card", f"{where}: cards")
            width = len(self.box.scale_out[0])
            ports = _numbers(leaf.scale_out, width, "scale-out port", f"{where}: scale_out")
            for index, group in enumerate(groups):
                name = leaf.name if len(groups) == 1 else f"{leaf.name}{index}"
                if name in names or "/" in name or "=" in name or "," in name or name in ("", "*"):
                    raise ConfigurationError(f"{where}: name {name!r} is taken or has a sign in it; give another")
                names.append(name)
                for end in ((box, card, port) for box in group for card in cards for port in ports):
                    if end in plugged:
                        raise ConfigurationError(
                            f"{where}: port {self.box.scale_out[end[1]][end[2]]} of card {end[0]}.{end[1]} is used "
                            f"twice, by leaf {names[plugged[end]]} and by leaf {name}; a port takes one cable"
                        )
                    plugged[end] = len(names) - 1
        return tuple(names), plugged

    def _check_connected(self) -> None:
        """Each two boxes have a way, and so do the cards of a box that has no cables inside."""
        of_box: dict[int, set[tuple[int, int]]] = {box: set() for box in range(self.spec.boxes)}
        for (box, _, port), leaf in self.leaf_of.items():
            of_box[box].add((port, leaf))
        alone = next((box for box, ends in of_box.items() if not ends), None)
        where = f"fabric {self.spec.name}"
        if alone is not None and not self.box.is_mesh:
            raise ConfigurationError(
                f"{where}: the cards of box {alone} are not connected: a {self.box.name} has no cables inside, and no "
                "leaf takes its ports; add it to [[leaves]]"
            )
        if self.spec.boxes == 1:
            return
        if alone is not None:
            one, two = sorted((alone, 0 if alone else 1))
            raise ConfigurationError(
                f"{where}: boxes {one} and {two} are not connected: no leaf takes ports of box {alone}; add it to "
                "[[leaves]]"
            )
        kinds: dict[frozenset[tuple[int, int]], int] = {}  # one of the boxes that are plugged alike
        for box, ends in of_box.items():
            kinds.setdefault(frozenset(ends), box)
        joined = bool(self.spec.switches.spines)
        for (these, box), (others, other) in combinations(kinds.items(), 2):
            same_ports = {port for port, _ in these} & {port for port, _ in others}
            if not (these & others or (joined and same_ports)):
                raise ConfigurationError(
                    f"{where}: boxes {box} and {other} are not connected: no port of the one meets the same one of the "
                    "other; give them a leaf, or spines ([switches] spines) to join their leaves"
                )


def _box_groups(text: str, count: int, where: str) -> list[list[int]]:
    """Boxes of each leaf."""
    ranges, slash, step_text = text.partition("/")
    boxes = _numbers(ranges, count, "box", where)
    if not slash:
        return [boxes]
    if not (step_text.strip().isdecimal() and int(step_text)):
        raise ConfigurationError(f"{where} = {text!r}: {step_text!r} is no number of boxes; write such as 0-127/4")
    step = int(step_text)
    return [boxes[start : start + step] for start in range(0, len(boxes), step)]


def _numbers(text: str, count: int, kind: str, where: str) -> list[int]:
    """The numbers in a list of numbers and ranges; `*` for all of 0 to `count` - 1."""
    if text.strip() == "*":
        return list(range(count))
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = (end.strip() for end in part.partition("-"))
        ends = (first, last if dash else first)
        if not all(end.isascii() and end.isdecimal() and len(end) <= 6 for end in ends):
            raise ConfigurationError(f"{where} = {text!r}: {part.strip()!r} is no number or range; write such as 0-3,7")
        for end in ends:
            if int(end) >= count:
                raise ConfigurationError(
                    f"{where} = {text!r}: there is no {kind} {end}; there are {count}, counted from 0"
                )
        numbers.extend(range(int(ends[0]), int(ends[1]) + 1))
    if not numbers or len(set(numbers)) != len(numbers):
        raise ConfigurationError(
            f"{where} = {text!r} names {'nothing' if not numbers else 'one twice'}; name each once"
        )
    return sorted(numbers)
