"""How the ranks of a new group find each other: by the store that torch.distributed hands to the backend.

Each publishes a card. Where these show several machines, each begins to listen for the others and publishes where, with
the public key of its process; once all have let all keys in, they connect.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from device.liveness import ProcessId

from ..errors import CollectiveError, CollectiveTimeout
from .control import control_plane
from .machine import host_name, machine_id, network_id
from .membership import Membership, Peer
from .wire_address import WireAddress

_VERSION = 2


def meet(store: dist.Store, label: str, own: int, ranks: Sequence[int], timeout_s: float) -> Membership:
    """Publish this rank in the store, wait for the others, and enter the group's control plane.

    `ranks` are the group's ranks as the whole job counts them, `own` this one's place among them.

    Raises:
        CollectiveTimeout: ranks that did not come within `timeout_s` seconds (named).
        CollectiveError: the store fails, or ranks on other machines cannot be reached (named).
        ConfigurationError: this rank cannot be reached from other machines as the environment has it.
    """
    table = _Table(store, label, own, ranks, timeout_s)
    plane = control_plane()
    peer = Peer(
        rank=ranks[own],
        address=plane.address,
        process=ProcessId.of_this_process(),
        host=host_name(),
        machine=machine_id(),
        network=network_id(),
        module=os.environ.get("HLS_MODULE_ID", ""),
    )
    cards = table.exchange("", {"version": _VERSION, "token": secrets.token_hex(16), "peer": peer.to_plain()})
    for rank, card in zip(ranks, cards, strict=True):
        if card["version"] != _VERSION:
            raise CollectiveError(
                f"process group {label}: rank {rank} speaks version {card['version']} of this protocol, rank "
                f"{ranks[own]} version {_VERSION}; install the same hpucluster on all machines"
            )
    token, peers = cards[0]["token"], [Peer.from_plain(card["peer"]) for card in cards]
    if len({peer.machine for peer in peers}) == 1:
        return plane.join(token, own, peers)
    try:
        wire: dict[str, Any] = asdict(plane.open_wire(len({peer.network for peer in peers}) == 1))
    except Exception as error:  # whatever it is, the others need not wait for this rank
        table.publish("wire/", {"problem": str(error)})
        raise
    entries = table.exchange("wire/", wire)
    peers = [replace(peer, wire=WireAddress(**entry)) for peer, entry in zip(peers, entries, strict=True)]
    membership = plane.join(token, own, peers)
    table.exchange("admitted/", {})
    try:
        plane.reach(membership, time.monotonic() + timeout_s, f"process group {label}")
    except CollectiveError as error:
        # A rank that has met with a problem first is gone by now, and its problem is the one to tell.
        table.raise_problem("connected/")
        table.publish("connected/", {"problem": str(error)})
        raise
    table.exchange("connected/", {})  # nobody leaves while others are still connecting to it
    return membership


class _Table:
    """Entries of all ranks in the store, as JSON."""

    def __init__(self, store: dist.Store, label: str, own: int, ranks: Sequence[int], timeout_s: float) -> None:
        self._store = store
        self._label = label
        self._own = own
        self._ranks = ranks
        self._timeout_s = timeout_s

    def publish(self, kind: str, entry: dict[str, Any]) -> None:
        self._store.set(f"hccl/{kind}{self._own}", json.dumps(entry))

    def exchange(self, kind: str, entry: dict[str, Any]) -> list[dict[str, Any]]:
        """Publish ours, wait for the others'; returns all, by place in the group. Raises as `meet`, also where a rank
        has published its `problem` instead.
        """
        keys = [f"hccl/{kind}{place}" for place in range(len(self._ranks))]
        try:
            self.publish(kind, entry)
            try:
                self._store.wait(keys, timedelta(seconds=self._timeout_s))
            except (dist.DistStoreError, RuntimeError) as error:
                missing = [str(self._ranks[place]) for place, key in enumerate(keys) if not self._store.check([key])]
                if not missing:
                    raise
                raise CollectiveTimeout(
                    f"process group {self._label}: rank {self._ranks[self._own]} waited {self._timeout_s:g} s for "
                    f"rank(s) {', '.join(missing)} to join; start all ranks, or allow more time "
                    "(init_process_group(timeout=...), HPUCLUSTER_COLLECTIVE_TIMEOUT)"
                ) from error
            entries = [json.loads(data) for data in self._store.multi_get(keys)]
        except CollectiveError:
            raise
        except (dist.DistError, RuntimeError) as error:
            raise CollectiveError(
                f"process group {self._label}: the rendezvous store failed ({error}); it ends with the process that "
                "serves it, usually rank 0"
            ) from error
        for rank, found in zip(self._ranks, entries, strict=True):
            self._check(rank, found)
        return entries

    def raise_problem(self, kind: str) -> None:
        """Raise the problem that a rank has published, if one has."""
        for place, rank in enumerate(self._ranks):
            key = f"hccl/{kind}{place}"
            if self._store.check([key]):
                self._check(rank, json.loads(self._store.get(key)))

    def _check(self, rank: int, entry: dict[str, Any]) -> None:
        if "problem" in entry:
            raise CollectiveError(f"process group {self._label}: rank {rank}: {entry['problem']}")
