"""Which machine this process is on, as far as ranks can share memory or a network with each other.

Two containers or network namespaces on one kernel count as two machines when they cannot share memory files or abstract
sockets.
"""

from __future__ import annotations

import os

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_NETWORK = "/proc/self/ns/net"
_SHARED_MEMORY = "/dev/shm"


def host_name() -> str:
    return os.uname().nodename


def network_id() -> str:
    """The same text for all processes with the same network interfaces: running kernel and network namespace."""
    with open(_BOOT_ID, encoding="ascii") as file:
        boot = file.read().strip()
    return f"{boot}/{_inode(_NETWORK)}"


def machine_id() -> str:
    """The same text for all processes that can share memory and local sockets: network, and the mount of /dev/shm.

    HPUCLUSTER_MACHINE divides further: processes that give it different values are on different machines, which is how
    a job on two machines is tried out on one.
    """
    try:
        memory = str(os.stat(_SHARED_MEMORY).st_dev)
    except OSError:
        memory = ""  # whoever needs it says so
    return f"{network_id()}/{memory}/{os.environ.get('HPUCLUSTER_MACHINE', '')}"


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0  # a kernel without namespaces has one network
