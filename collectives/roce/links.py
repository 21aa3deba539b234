"""States of links: up, down, or up at a part of their rate.

An entry is WHERE=STATE. WHERE names a card's port or the link between a leaf and a spine switch:

    2.5:8        port 8 of module 5 of box 2
    21:8         port 8 of the card of rank 21, if rank r is module r % c of box r // c, c cards in each box
    2.*:8  *.5:8  *:8  21:*      a star stands for all
    leaf3/spine0  leaf3/*        between two switches, both ways

STATE is `up`, `down`, or the share of the rate that is left, such as 0.5. Of several entries that fit, the last counts.
A port's state holds for both directions of its cable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from device.errors import ConfigurationError

EXAMPLE = "write WHERE=STATE, such as 0:8=down, 2.5:22=0.5, *:23=down or leaf0/spine1=0.5"


@dataclass(frozen=True)
class PortState:
    """`rate` of the ports that fit; None fits all."""

    box: int | None
    module: int | None
    port: int | None
    rate: float

    def fits(self, box: int, module: int, port: int) -> bool:
        return self.box in (None, box) and self.module in (None, module) and self.port in (None, port)


@dataclass(frozen=True)
class SwitchState:
    """`rate` of the links between leaves and spines that fit; None fits all."""

    leaf: str | None
    spine: str | None
    rate: float

    def fits(self, leaf: str, spine: str) -> bool:
        return self.leaf in (None, leaf) and self.spine in (None, spine)


def split_entries(text: str) -> list[str]:
    """The entries of HPUCLUSTER_LINKS, which commas part."""
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_states(entries: Iterable[str], cards_per_box: int, where: str) -> list[PortState | SwitchState]:
    """States in the order in which they were given. `where` names their source in messages.

    Raises:
        ConfigurationError: an entry that cannot be read (named).
    """
    return [_parsed(entry, cards_per_box, f"{where}: {entry!r}") for entry in entries]


def _parsed(entry: str, cards_per_box: int, said: str) -> PortState | SwitchState:
    place, equals, state = (part.strip() for part in entry.partition("="))
    if not equals:
        raise ConfigurationError(f"{said} has no state; {EXAMPLE}")
    rate = _rate(state, said)
    if "/" in place:
        leaf, _, spine = (part.strip() for part in place.partition("/"))
        if not leaf or not spine:
            raise ConfigurationError(f"{said} names no link; {EXAMPLE}")
        return SwitchState(None if leaf == "*" else leaf, None if spine == "*" else spine, rate)
    card, colon, port = (part.strip() for part in place.partition(":"))
    if not colon:
        raise ConfigurationError(f"{said} names no port; {EXAMPLE}")
    if "." in card:
        box, _, module = card.partition(".")
        return PortState(_number(box, said), _number(module, said), _number(port, said), rate)
    rank = _number(card, said)
    if rank is None:
        return PortState(None, None, _number(port, said), rate)
    return PortState(rank // cards_per_box, rank % cards_per_box, _number(port, said), rate)


def _number(text: str, said: str) -> int | None:
    if text == "*":
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 6):
        raise ConfigurationError(f"{said}: {text!r} is neither a number nor *; {EXAMPLE}")
    return int(text)


def _rate(text: str, said: str) -> float:
    if text in ("up", "down"):
        return 1.0 if text == "up" else 0.0
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 < rate <= 1:
        raise ConfigurationError(
            f"{said}: {text!r} is no state; write up, down, or the share of the rate that is left, such as 0.5"
        )
    return rate
