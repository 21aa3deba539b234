"""By which address the ranks on other machines reach this process.

| variable | meaning |
|---|---|
| `HPUCLUSTER_WIRE_ADDRESS` | the address to announce, where others know this machine by another than it does itself |
| `HPUCLUSTER_WIRE_INTERFACE`, `HCCL_SOCKET_IFNAME` | the network interface, or the beginning of its name |
| `HPUCLUSTER_WIRE_PORTS` | the ports to choose from, `41000-41999`; without it any free one |
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from device.errors import ConfigurationError

LOOPBACK = "127.0.0.1"
ANY = "*"
_SIOCGIFADDR = 0x8915  # Linux: the IPv4 address of an interface
_NAME_BYTES = 15
_ELSEWHERE = "198.51.100.1"  # reserved for documentation (RFC 5737); nothing is sent to it


@dataclass(frozen=True)
class Place:
    """`announced` is the address for others, `bound` the one to listen on (`*`: all)."""

    announced: str
    bound: str


def choose_place(is_one_network: bool) -> Place:
    """Where to listen, and what to tell the others. `is_one_network`: they all have this process's interfaces.

    Raises:
        ConfigurationError: a variable names no address or interface, or there is no address by which others could come.
    """
    address = os.environ.get("HPUCLUSTER_WIRE_ADDRESS", "").strip()
    if address:
        try:
            socket.getaddrinfo(address, None)
        except OSError as error:
            raise ConfigurationError(f"HPUCLUSTER_WIRE_ADDRESS={address!r} is no address: {error.strerror}") from error
        return Place(address, ANY)
    for variable in ("HPUCLUSTER_WIRE_INTERFACE", "HCCL_SOCKET_IFNAME"):
        prefix = os.environ.get(variable, "").strip()
        if prefix:
            return _both(_address_of_interface(prefix, variable))
    if is_one_network:
        return _both(LOOPBACK)
    # A machine's own name often leads to its loopback address, so the rendezvous host is only the first choice.
    master = os.environ.get("MASTER_ADDR", "").strip()
    for target in (master, _ELSEWHERE):
        found = _source_towards(target) if target else None
        if found is not None and not ipaddress.ip_address(found).is_loopback:
            return _both(found)
    raise ConfigurationError(
        f"no address of this machine leads to the other machines (MASTER_ADDR is {master!r}); name one in "
        "HPUCLUSTER_WIRE_ADDRESS, or its interface in HPUCLUSTER_WIRE_INTERFACE"
    )


def ports() -> Iterable[int]:
    """Ports to try in turn; 0 means any free one.

    Raises:
        ConfigurationError: HPUCLUSTER_WIRE_PORTS is not a port or a range of ports.
    """
    text = os.environ.get("HPUCLUSTER_WIRE_PORTS", "").strip()
    if not text:
        return (0,)
    first, dash, last = text.partition("-")
    try:
        low, high = int(first), int(last if dash else first)
    except ValueError:
        low, high = 0, 0
    if not 0 < low <= high < 65536:
        raise ConfigurationError(f"HPUCLUSTER_WIRE_PORTS={text!r} is not a range of ports; for example 41000-41999")
    return range(low, high + 1)


def endpoint(address: str, port: int | str) -> str:
    """A ZeroMQ endpoint: `tcp://10.0.0.1:41000`, with brackets around an IPv6 address; port `*` is any free one."""
    return f"tcp://[{address}]:{port}" if ":" in address else f"tcp://{address}:{port}"


def is_version_6(address: str) -> bool:
    return ":" in address


def _both(address: str) -> Place:
    return Place(address, address)


def _source_towards(host: str) -> str | None:
    """The local address from which packets to `host` would leave; None where there is no way to it."""
    try:
        candidates = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
    except OSError:
        return None
    for family, kind, protocol, _, target in candidates:
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.connect(target)  # for datagrams this only looks up the route
            except OSError:
                continue
            return str(probe.getsockname()[0])
    return None


def _address_of_interface(prefix: str, variable: str) -> str:
    names = sorted(name for _, name in socket.if_nameindex())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for name in (name for name in names if name.startswith(prefix)):
            request = struct.pack("256s", name.encode()[:_NAME_BYTES])
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:
                continue  # it is down or has no IPv4 address
            return socket.inet_ntoa(answer[20:24])
    raise ConfigurationError(
        f"{variable}={prefix!r}: no network interface of that name has an IPv4 address; there are {', '.join(names)}"
    )
