"""Networks and groups as tests want them, and the formulae of one message written out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from collectives.roce.box import BoxSpec, load_box
from collectives.roce.group import Group
from collectives.roce.network import Network, default_fabric
from collectives.roce.place import Place
from collectives.roce.topology import FabricSpec, load_fabric

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

# HLS-2: bytes per second on the wire of one port, and the fixed times.
PORT = 12.5e9 * 0.995
PHASE, MESSAGE, HOP, LEFT = 0.4e-6, 0.1e-6, 0.7e-6, 0.98


def wire(nbytes: float) -> float:
    """Bytes of one message on the wire: packets of 8 KB with 82 bytes each, and 16 for the message."""
    return nbytes + 82 * math.ceil(nbytes / 8192) + 16


@cache
def _box(name: str) -> BoxSpec:
    return load_box(name)


@cache
def _fabric(name: str, box: str, boxes: int) -> FabricSpec:
    return load_fabric(name) if name else default_fabric(_box(box), boxes)


def network(
    boxes: int = 1,
    box: str = "hls2",
    fabric: str = "",
    links: Sequence[str] = (),
    algorithm: str = "auto",
    cards: int = 0,
) -> Network:
    """`cards`: in each box, 0 for all."""
    kind = _box(box)
    return Network(kind, _fabric(fabric, box, boxes), cards or kind.cards, tuple(links), algorithm)


def whole(boxes: int = 1, box: str = "hls2", **options: object) -> Group:
    """A group of all cards of the first boxes."""
    made = network(boxes, box, **options)  # type: ignore[arg-type]
    return made.group([Place(number, card) for number in range(boxes) for card in range(made.cards_per_box)])


def on_ideal_ports(made: Network) -> Network:
    """The same network whose ports begin messages in no time."""
    return replace(made, box=replace(made.box, roce=replace(made.box.roce, message_s=0.0)))
