"""A box of cards: which port of which card leads where, what a port carries. Read from `configs/boxes/*.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from device.description import Bandwidth, Count, Delay, Share, configs_dir, parse_table, read_table
from device.errors import ConfigurationError

OUT, NOWHERE = "out", "-"
REDUCES_IN = ("sram", "hbm")


@dataclass(frozen=True)
class PortSpec:
    """RoCE ports. `line_rate_bytes_per_s` is one port, one way. `map[card][port]` is the other end of the cable:
    `card:port`, `out` for a port that leaves the box, `-` for one that leads nowhere.
    """

    line_rate_bytes_per_s: Bandwidth
    map: list[list[str]]


@dataclass(frozen=True)
class RoceSpec:
    """What RoCE makes of the line rate.

    A message of b bytes takes b + `message_overhead_bytes` + `packet_overhead_bytes` for each begun `mtu_bytes` on the
    wire, which carries `efficiency` of the line rate; a port begins a message every `message_s`. `phase_latency_s`:
    fixed time of one phase, in which cards exchange what depends on the phase before.
    """

    efficiency: Share
    mtu_bytes: Count
    packet_overhead_bytes: int
    message_overhead_bytes: int
    message_s: Delay
    phase_latency_s: Delay


@dataclass(frozen=True)
class HcclSpec:
    """Choices of the communication library: slice of a pipelined transfer, size above which broadcast takes two
    phases, memory in which incoming data is reduced (`sram` or `hbm`).
    """

    slice_bytes: Count
    broadcast_two_phase_bytes: int
    reduces_in: str


@dataclass(frozen=True)
class BoxSpec:
    """One kind of box: `cards` cards. Either each pair has cables of its own (a full mesh), or no pair has any and the
    cards meet at switches outside.
    """

    name: str
    card: str
    cards: Count
    ports: PortSpec
    roce: RoceSpec
    hccl: HcclSpec

    @cached_property
    def ports_per_card(self) -> int:
        return len(self.ports.map[0])

    @cached_property
    def pair_ports(self) -> dict[tuple[int, int], tuple[tuple[int, int], ...]]:
        """(port of a, port of b) of each cable between cards a and b, for each ordered pair that has any."""
        cables: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for card, row in enumerate(self.ports.map):
            for port, entry in enumerate(row):
                if entry not in (OUT, NOWHERE):
                    peer, far = (int(part) for part in entry.split(":"))
                    cables.setdefault((card, peer), []).append((port, far))
        return {pair: tuple(ends) for pair, ends in cables.items()}

    @cached_property
    def scale_out(self) -> tuple[tuple[int, ...], ...]:
        """For each card the ports that leave the box, ascending. All cards have equally many."""
        return tuple(tuple(port for port, entry in enumerate(row) if entry == OUT) for row in self.ports.map)

    @property
    def is_mesh(self) -> bool:
        """Whether cards of the box reach each other without a switch."""
        return self.cards == 1 or bool(self.pair_ports)

    @property
    def ports_per_pair(self) -> int:
        """Cables of the pair that has fewest."""
        return min((len(ends) for ends in self.pair_ports.values()), default=0)

    @property
    def pair_rate(self) -> float:
        """Bytes on the wire per second, one way, between two cards of the box: ports x line rate x efficiency."""
        return self.ports_per_pair * self.ports.line_rate_bytes_per_s * self.roce.efficiency

    @property
    def scale_out_rate(self) -> float:
        """Bytes on the wire per second, one way, that one card sends out of the box: the same of its other ports."""
        return len(self.scale_out[0]) * self.ports.line_rate_bytes_per_s * self.roce.efficiency

    def to_plain(self) -> dict[str, Any]:
        """The box as a table, from which `box_of` makes it again."""
        return asdict(self)


def load_box(name: str) -> BoxSpec:
    """The description of a box: `hls1`, `hls1h`, `hls2`, `hls3`, or the path of a file of that form.

    Raises:
        ConfigurationError: unknown box, unreadable file, unknown, missing or bad key, a port map that cannot be
        (named with card and port).
    """
    path = described(name, "box", "boxes")
    return box_of(read_table(path, "box"), str(path))


def described(name: str, kind: str, folder: str) -> Path:
    """The file of a description that comes with the project (`folder` of configs) or is given by path."""
    if name.endswith(".toml") and "\0" not in name:
        return Path(name)
    known = {file.stem: file for file in (configs_dir() / folder).glob("*.toml")}
    if name not in known:
        raise ConfigurationError(
            f"unknown {kind} {name!r}; choose one of {', '.join(sorted(known))}, or the path of a {kind} file (.toml)"
        )
    return known[name]


def box_of(table: Mapping[str, Any], where: str) -> BoxSpec:
    """A box from its table; `where` names it in messages. Raises ConfigurationError."""
    box: BoxSpec = parse_table(BoxSpec, dict(table), where)
    if box.hccl.reduces_in not in REDUCES_IN:
        raise ConfigurationError(
            f"{where}: [hccl] reduces_in must be one of {', '.join(REDUCES_IN)}; got {box.hccl.reduces_in!r}"
        )
    _check_map(box, f"{where}: [ports] map")
    return box


def _check_map(box: BoxSpec, where: str) -> None:
    rows = box.ports.map
    if len(rows) != box.cards:
        raise ConfigurationError(f"{where} has {len(rows)} rows for {box.cards} cards; give one for each card")
    width = len(rows[0])
    if not width:
        raise ConfigurationError(f"{where}: card 0 has no ports; give an entry for each")
    for card, row in enumerate(rows):
        if len(row) != width:
            raise ConfigurationError(f"{where}: card {card} has {len(row)} ports and card 0 has {width}; give as many")
    used: dict[tuple[int, int], tuple[int, int]] = {}
    for card, row in enumerate(rows):
        for port, entry in enumerate(row):
            if entry not in (OUT, NOWHERE):
                _check_cable(box, (card, port), entry, used, where)
    for (card, port), (peer, far) in used.items():
        if used.get((peer, far)) != (card, port):
            raise ConfigurationError(
                f"{where}: port {port} of card {card} leads to port {far} of card {peer}, but that one says "
                f"{rows[peer][far]!r}; it must say '{card}:{port}'"
            )
    if used:
        for one in range(box.cards):
            for other in range(one + 1, box.cards):
                if (one, other) not in box.pair_ports:
                    raise ConfigurationError(
                        f"{where}: cards {one} and {other} have no link; give each pair a port, or none at all"
                    )
    counts = [len(ports) for ports in box.scale_out]
    if len(set(counts)) > 1:
        card = next(card for card in range(box.cards) if counts[card] != counts[0])
        raise ConfigurationError(
            f"{where}: card {card} has {counts[card]} ports that leave the box and card 0 has {counts[0]}; "
            "give all cards as many"
        )
    if not box.is_mesh and not counts[0]:
        raise ConfigurationError(f"{where}: no port leads anywhere; give each pair of cards a port")


def _check_cable(
    box: BoxSpec,
    end: tuple[int, int],
    entry: str,
    used: dict[tuple[int, int], tuple[int, int]],
    where: str,
) -> None:
    """One entry of the map that is a cable; adds it to `used`, by its near end."""
    card, port = end
    said = f"{where}: port {port} of card {card} is {entry!r}"
    peer_text, colon, far_text = entry.partition(":")
    if not (colon and _is_number(peer_text) and _is_number(far_text)):
        raise ConfigurationError(f"{said}; write 'card:port', '{OUT}' or '{NOWHERE}'")
    peer, far = int(peer_text), int(far_text)
    if peer >= box.cards:
        raise ConfigurationError(f"{said}, but there is no card {peer}; the box has cards 0 to {box.cards - 1}")
    if peer == card:
        raise ConfigurationError(f"{said}, a cable from the card to itself; lead it to another card")
    if far >= box.ports_per_card:
        raise ConfigurationError(f"{said}, but cards have ports 0 to {box.ports_per_card - 1} only")
    for other, far_end in used.items():
        if far_end == (peer, far):
            raise ConfigurationError(
                f"{said}, but port {far} of card {peer} is used already, by port {other[1]} of card {other[0]}; "
                "a port takes one cable"
            )
    used[end] = (peer, far)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 6
