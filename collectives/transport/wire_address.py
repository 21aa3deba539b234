"""Where a process is reached from other machines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WireAddress:
    """`endpoint` is ZeroMQ's (`tcp://10.0.0.1:41000`), `key` the public key of who listens there (Z85)."""

    endpoint: str
    key: str
