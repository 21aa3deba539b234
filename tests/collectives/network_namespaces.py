"""Two network namespaces of this machine, joined by a cable: as far as ranks can tell, two machines."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

_serial = itertools.count()
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET of setns(2)


@dataclass(frozen=True)
class Namespaces:
    """Names and addresses of the two; the cable is the interface `cable` in each."""

    names: tuple[str, str]
    addresses: tuple[str, str]
    cable: str = "cable"

    def command(self, index: int) -> list[str]:
        """What a command begins with that runs in one of them."""
        return ["ip", "netns", "exec", self.names[index]]

    def unplug(self) -> None:
        """Take the cable away: what is sent gets lost without a word."""
        _ip("-n", self.names[0], "link", "set", self.cable, "down")


def reason_to_skip() -> str | None:
    """Why there can be none here; None if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the command ip: apt-get install iproute2"
    name = f"hpucluster{os.getpid()}try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"no network namespace can be made here: {made.stderr.strip()}"
    _ip("netns", "del", name)
    return None


@contextlib.contextmanager
def two_namespaces() -> Iterator[Namespaces]:
    """Make them, and remove them in the end."""
    number = f"{os.getpid()}x{next(_serial)}"
    names = (f"hpucluster{number}a", f"hpucluster{number}b")
    ends = (f"hpu{number}a", f"hpu{number}b")
    found = Namespaces(names, ("10.213.77.1", "10.213.77.2"))
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for name, end, address in zip(names, ends, found.addresses, strict=True):
            _ip("link", "set", end, "netns", name, "name", found.cable)
            _ip("-n", name, "address", "add", f"{address}/24", "dev", found.cable)
            for interface in ("lo", found.cable):
                _ip("-n", name, "link", "set", interface, "up")
        yield found
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def enter(name: str) -> None:
    """Move this process (its only thread so far) into a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(f"/var/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, _NEW_NETWORK) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)
    finally:
        os.close(descriptor)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
