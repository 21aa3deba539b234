"""What one phase of a collective puts on each link, and how long it takes.

All messages of a phase start together. Its time is that of its busiest link: the largest sum of what messages need on
one link. For messages of one size that is exactly when the last of them ends under max-min fair sharing (`flows.py`):
the busiest link saturates first, and all its messages then keep their rate to the end. So a receiver to which many send
at once (incast), a leaf with too few links to the spines, or a port at half its rate holds everybody up.

Traffic is a shape: sizes are shares of the collective's bytes, so that the time for another size costs microseconds.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

from .box import RoceSpec
from .place import Place
from .wiring import DOWN, IN, OUT, UP, Attachment, Link, Wiring


@dataclass(frozen=True)
class Load:
    """What a link carries: (messages, size of each as a share of the collective's bytes, share of the rate that the
    switches on their way leave).
    """

    link: Link
    rate_bytes_per_s: float
    parts: tuple[tuple[float, float, float], ...]

    def wire_bytes(self, nbytes: float, roce: RoceSpec) -> float:
        """Bytes on the wire, overheads included, as if no switch took a part of the rate."""
        return sum(count * wire_bytes(share * nbytes, roce) / left for count, share, left in self.parts)

    def seconds(self, nbytes: float, roce: RoceSpec) -> float:
        messages = sum(count for count, _, _ in self.parts) if self.link.is_port else 0.0
        return self.wire_bytes(nbytes, roce) / self.rate_bytes_per_s + messages * roce.message_s


def wire_bytes(nbytes: float, roce: RoceSpec) -> float:
    """Bytes on the wire of one message: payload, and the overheads of the message and of each packet."""
    packets = max(1, math.ceil(nbytes / roce.mtu_bytes))
    return nbytes + roce.message_overhead_bytes + packets * roce.packet_overhead_bytes


def _order(link: Link) -> tuple[int, Link]:
    return (OUT, UP, DOWN, IN).index(link.direction), link


class Traffic:
    """Messages of one phase, collected by `send`, `pairs` and `across`; `share` is a message's size as a share of the
    collective's bytes.

    Raises (all three):
        ConfigurationError: two cards that have no way to each other (named).
    """

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._counts: dict[Link, dict[tuple[float, float], float]] = {}
        self._between: Counter[tuple[int, int, float, float]] = Counter()
        self.hops = 0
        self.sent = 0.0  # bytes that all cards together send, as a share of the collective's
        self._loads: tuple[Load, ...] | None = None

    def send(self, source: Place, target: Place, share: float, messages: int = 1) -> None:
        """`messages` messages from one card to another."""
        if self._wiring.domain(source) == self._wiring.domain(target):
            self._cable(source, target, share, messages)
        else:
            self.across([source], [target], share, messages)

    def pairs(self, places: Sequence[Place], share: float, messages: int = 1) -> None:
        """Each card to each other one, all of one domain."""
        for source, target in permutations(places, 2):
            self._cable(source, target, share, messages)

    def everyone(self, places: Sequence[Place], share: float) -> None:
        """Each card to each other one, wherever they stand."""
        domains: dict[tuple[int, int], list[Place]] = {}
        for place in places:
            domains.setdefault(self._wiring.domain(place), []).append(place)
        for members in domains.values():
            self.pairs(members, share)
        self.across(places, places, share)

    def across(self, sources: Sequence[Place], targets: Sequence[Place], share: float, messages: int = 1) -> None:
        """Each source to each target that is not of its own domain, by the ports that lead out of the box."""
        self._sent(self._one_end(OUT, sources, targets, share, messages), share)
        self._one_end(IN, targets, sources, share, messages)

    def loads(self) -> tuple[Load, ...]:
        """One link of each kind of load; of several that carry the same the first on the way from a sender."""
        if self._loads is None:
            kinds: dict[tuple[float, tuple[tuple[float, float, float], ...]], Link] = {}
            for link, counts in self._all_counts().items():
                parts = tuple(sorted((count, share, left) for (share, left), count in counts.items()))
                key = (self._wiring.rate(link), parts)
                if key not in kinds or _order(link) < _order(kinds[key]):
                    kinds[key] = link
            self._loads = tuple(
                sorted((Load(link, *key) for key, link in kinds.items()), key=lambda load: _order(load.link))
            )
        return self._loads

    def busiest(self, nbytes: float) -> tuple[float, Load | None]:
        """Seconds that the busiest link needs, and that link; (0, None) where nothing is sent."""
        roce = self._wiring.box.roce
        longest, busiest = 0.0, None
        for load in self.loads():
            seconds = load.seconds(nbytes, roce)
            if seconds > longest:
                longest, busiest = seconds, load
        return longest, busiest

    def ports(self) -> Iterable[Link]:
        """Ports that carry anything."""
        return (link for link in self._counts if link.is_port)

    def _sent(self, messages: float, share: float) -> None:
        self.sent += messages * share

    def _cable(self, source: Place, target: Place, share: float, messages: int) -> None:
        cables = self._wiring.cables(source, target)
        key = (share / len(cables), 1.0)
        for port, far in cables:
            self._add(Link(OUT, source.box, source.module, port), key, messages)
            self._add(Link(IN, target.box, target.module, far), key, messages)
        self._sent(messages, share)

    def _add(self, link: Link, key: tuple[float, float], messages: float) -> None:
        parts = self._counts.get(link)
        if parts is None:
            parts = self._counts[link] = {}
        parts[key] = parts.get(key, 0.0) + messages

    def _one_end(
        self, direction: str, places: Sequence[Place], peers: Sequence[Place], share: float, messages: int
    ) -> int:
        """Loads of the ports of `places`, each with every peer of another domain; returns the number of messages.

        Cards that are plugged alike are counted together, so that a thousand of them take milliseconds.
        """
        wiring = self._wiring
        peers_of: dict[Attachment, list[Place]] = {}
        near: dict[tuple[int, int], Counter[Attachment]] = defaultdict(Counter)
        for peer in peers:
            attachment = wiring.attachment(peer)
            peers_of.setdefault(attachment, []).append(peer)
            near[wiring.domain(peer)][attachment] += 1
        alike: dict[tuple[Attachment, tuple[tuple[Attachment, int], ...]], list[Place]] = {}
        for place in places:
            own = tuple(near[wiring.domain(place)].items())
            alike.setdefault((wiring.attachment(place), own), []).append(place)
        total = 0
        for (_, own_counts), members in alike.items():
            counts = {attachment: len(found) for attachment, found in peers_of.items()}
            for attachment, count in own_counts:
                counts[attachment] -= count
            domain = wiring.domain(members[0])
            lanes: Counter[tuple[int, float, float]] = Counter()
            for attachment, count in counts.items():
                if count:
                    peer = next(peer for peer in peers_of[attachment] if wiring.domain(peer) != domain)
                    self._lanes(direction, members[0], peer, count * messages, share, lanes, len(members))
                    total += count * messages * len(members)
            for place in members:
                ports = wiring.box.scale_out[place.module]
                for (number, part, left), count in lanes.items():
                    self._add(Link(direction, place.box, place.module, ports[number]), (part, left), count)
        return total

    def _lanes(
        self,
        direction: str,
        place: Place,
        peer: Place,
        messages: int,
        share: float,
        lanes: Counter[tuple[int, float, float]],
        members: int,
    ) -> None:
        """Add to `lanes` what `messages` messages between a card and cards plugged like `peer` put on each scale-out
        port of it, by the port's number; and to the links behind the leaves what `members` such cards put there.
        """
        route = self._wiring.route(place, peer)
        part = share / len(route.lanes)
        self.hops = max(self.hops, route.hops())
        for number, here, there in route.lanes:
            left = self._wiring.fabric.spec.switches.hop_efficiency ** (1 if here == there else 3)
            lanes[number, part, left] += messages
            if direction == OUT and here != there:
                self._between[here, there, part, left] += messages * members

    def _all_counts(self) -> dict[Link, dict[tuple[float, float], float]]:
        """Loads of ports, and of the links between leaves and spines."""
        switches: dict[Link, dict[tuple[float, float], float]] = {}
        for (here, there, part, left), count in self._between.items():
            spines = self._wiring.spines(here, there)
            for link in (link for spine in spines for link in (Link(UP, here, spine, 0), Link(DOWN, there, spine, 0))):
                parts = switches.setdefault(link, {})
                parts[part, left] = parts.get((part, left), 0.0) + count / len(spines)
        return {**self._counts, **switches}
