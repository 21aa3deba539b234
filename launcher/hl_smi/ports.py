"""`-n`: the RoCE ports of a card. Without a list of ports, link and stats tell of those inside the box, as the real
tool does.

The links of an emulated fabric are up and lose nothing; traffic of single ports is not counted.
"""

from __future__ import annotations

from collections.abc import Callable

from ..messages import UserError
from .box import Aip

FAULTS = ("pcs_local_faults", "pcs_remote_faults", "pcs_link_restores")


def describe(aip: Aip, what: str, chosen: list[int] | None) -> str:
    """What `-n ports`, `-n link` or `-n stats` prints of a card. Raises UserError for a port that it does not have."""
    ports = aip.board.ports
    for port in chosen or ():
        if port >= ports.count:
            raise UserError(f"-P {port}: {aip.kind.product} has ports 0 to {ports.count - 1}; name some of them")
    if chosen is None:
        inside = [port for port in range(ports.count) if ports.kind(port) == "internal"]
        chosen = list(range(ports.count)) if what == "ports" else inside
    return "\n".join(_PRINTED[what](aip, port) for port in chosen)


def parse_ports(text: str) -> list[int]:
    """Port numbers in a comma-separated list. Raises UserError."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part.isdecimal():
            raise UserError(f"-P {text}: {part!r} is not a port's number; use a list such as 0,1,8")
    return [int(part) for part in parts]


def _kind(aip: Aip, port: int) -> str:
    return f"port {port:>2}:\t{aip.board.ports.kind(port)}"


def _link(_aip: Aip, port: int) -> str:
    return f"port {port:>2}:\tUP"


def _stats(_aip: Aip, port: int) -> str:
    return "\n".join([f"port {port}:", *(f"   {name}: 0" for name in FAULTS)])


_PRINTED: dict[str, Callable[[Aip, int], str]] = {"ports": _kind, "link": _link, "stats": _stats}
