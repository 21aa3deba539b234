"""`-n`: the RoCE ports of a card. Without a list of ports, link and stats tell of those inside the box, as the real
tool does.

Of a card whose process is in a process group, kind and state of its ports are those of its job's network. Of any other
they are those of the network that this tool's own environment describes (HPUCLUSTER_FABRIC, HPUCLUSTER_LINKS), in which
the machine's cards fill the boxes from the first on. Links lose nothing; traffic of single ports is not counted.
"""

from __future__ import annotations

from collections.abc import Callable

from collectives.roce.box import load_box
from collectives.roce.network import Network, default_fabric
from collectives.roce.place import Place
from device.board import BOARDS, load_board
from device.card_records import CardKind, CardPorts
from device.spec import chosen_card

from ..messages import UserError
from .box import Aip, same_kind

FAULTS = ("pcs_local_faults", "pcs_remote_faults", "pcs_link_restores")


def describe(aip: Aip, what: str, chosen: list[int] | None) -> str:
    """What `-n ports`, `-n link` or `-n stats` prints of a card.

    Raises:
        UserError: a port that the card does not have.
        ConfigurationError: see `ports_of`.
    """
    ports = ports_of(aip)
    for port in chosen or ():
        if port >= ports.count:
            raise UserError(f"-P {port}: {aip.kind.product} has ports 0 to {ports.count - 1}; name some of them")
    if chosen is None:
        inside = [port for port in range(ports.count) if ports.kind(port) == "internal"]
        chosen = list(range(ports.count)) if what == "ports" else inside
    return "\n".join(_PRINTED[what](ports, port) for port in chosen)


def ports_of(aip: Aip, network: Network | None = None) -> CardPorts:
    """The card's ports. `network`: that of cards whose process tells of none; None: `network_of` its kind.

    Raises ConfigurationError where the environment's network is needed and cannot be used.
    """
    told = [record for record in aip.holders if record.ports.count]
    if told:
        return max(told, key=lambda record: record.started).ports
    network = network or network_of(aip.kind)
    return network.ports(Place(*divmod(aip.module, network.box.cards)))


def network_of(kind: CardKind) -> Network:
    """The network of cards that no process group has: for the user's own kind of card, the environment's.

    Raises ConfigurationError where that cannot be used.
    """
    own = chosen_card()
    if same_kind(kind, CardKind.of(own)):
        return Network.of_environment(own, None)
    # Of another user's record no path is opened; states of links are about the ports of the own kind of card.
    box = load_box(kind.box if kind.box in BOARDS else load_board(kind.box).name)
    return Network(box, default_fabric(box, 1), box.cards)


def parse_ports(text: str) -> list[int]:
    """Port numbers in a comma-separated list. Raises UserError."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part.isdecimal():
            raise UserError(f"-P {text}: {part!r} is not a port's number; use a list such as 0,1,8")
    return [int(part) for part in parts]


def _kind(ports: CardPorts, port: int) -> str:
    return f"port {port:>2}:\t{ports.kind(port)}"


def _link(ports: CardPorts, port: int) -> str:
    return f"port {port:>2}:\t{'UP' if ports.is_up(port) else 'DOWN'}"


def _stats(_ports: CardPorts, port: int) -> str:
    return "\n".join([f"port {port}:", *(f"   {name}: 0" for name in FAULTS)])


_PRINTED: dict[str, Callable[[CardPorts, int], str]] = {"ports": _kind, "link": _link, "stats": _stats}
