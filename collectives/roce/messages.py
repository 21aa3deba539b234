"""Messages between cards that share ports, leaves and spines, each begun at its own moment."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from .flows import Transfer, ends
from .place import Place
from .traffic import wire_bytes
from .wiring import DOWN, IN, OUT, UP, Link, Wiring


@dataclass(frozen=True)
class Message:
    """`nbytes` from one card to another, ready at `start_s`."""

    source: Place
    target: Place
    nbytes: int
    start_s: float = 0.0


def message_ends(wiring: Wiring, messages: Sequence[Message]) -> list[float]:
    """The moment in seconds at which each message has come in, in their order.

    A message alone takes what a group of its two cards takes for `send_recv`. Together they share links max-min fairly
    (`flows.py`); a message ends with the last of its parts, one on each port that it is divided over.

    Raises:
        ConfigurationError: a card that the fabric does not have, or two that have no way to each other.
    """
    roce, switches = wiring.box.roce, wiring.fabric.spec.switches
    transfers: list[Transfer] = []
    owners: list[int] = []
    latencies: list[float] = []
    for owner, message in enumerate(messages):
        for place in (message.source, message.target):
            wiring.check_place(place)
        parts, hops = _parts(wiring, message)
        latencies.append(roce.phase_latency_s + roce.message_s + hops * switches.hop_latency_s)
        for links, share, left in parts:
            # Spines carry equal parts of what one port sends; the overheads are those of the port's whole part.
            size = wire_bytes(message.nbytes * share, roce) / left
            spread = [link for link in links if not link.is_port]
            ways = [
                frozenset((*(link for link in links if link.is_port), *pair))
                for pair in zip(spread[::2], spread[1::2], strict=True)
            ] or [frozenset(links)]
            for way in ways:
                transfers.append(Transfer(message.start_s, size / len(ways), way))
                owners.append(owner)
    used = {link for transfer in transfers for link in transfer.links}
    rates: dict[Hashable, float] = {link: wiring.rate(link) for link in used if isinstance(link, Link)}
    finished = [message.start_s for message in messages]
    for owner, end in zip(owners, ends(transfers, rates), strict=True):
        finished[owner] = max(finished[owner], end)
    return [
        end + latency if message.source != message.target else message.start_s
        for message, end, latency in zip(messages, finished, latencies, strict=True)
    ]


def _parts(wiring: Wiring, message: Message) -> tuple[list[tuple[list[Link], float, float]], int]:
    """(links, share of the message, share of the rate that switches leave) for each port; switches on the way.

    Behind the two ports come the links of each spine, up and down in turn.
    """
    source, target = message.source, message.target
    if source == target:
        return [], 0
    if wiring.domain(source) == wiring.domain(target):
        cables = wiring.cables(source, target)
        return [
            (
                [Link(OUT, source.box, source.module, port), Link(IN, target.box, target.module, far)],
                1 / len(cables),
                1.0,
            )
            for port, far in cables
        ], 0
    route = wiring.route(source, target)
    ports, far_ports = wiring.box.scale_out[source.module], wiring.box.scale_out[target.module]
    parts = []
    for number, here, there in route.lanes:
        links = [
            Link(OUT, source.box, source.module, ports[number]),
            Link(IN, target.box, target.module, far_ports[number]),
        ]
        if here != there:
            for spine in wiring.spines(here, there):
                links += [Link(UP, here, spine, 0), Link(DOWN, there, spine, 0)]
        left = wiring.fabric.spec.switches.hop_efficiency ** (1 if here == there else 3)
        parts.append((links, 1 / len(route.lanes), left))
    return parts, route.hops()
