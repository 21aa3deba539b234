"""How the ranks of a new group find each other: by the store that torch.distributed hands to the backend."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from datetime import timedelta

import torch.distributed as dist

from device.liveness import ProcessId

from ..errors import CollectiveError, CollectiveTimeout
from .control import control_plane
from .membership import Membership, Peer, host_name, machine_id

_VERSION = 1


def meet(store: dist.Store, label: str, own: int, ranks: Sequence[int], timeout_s: float) -> Membership:
    """Publish this rank in the store, wait for the others, and enter the group's control plane.

    `ranks` are the group's ranks as the whole job counts them, `own` this one's place among them.

    Raises:
        CollectiveTimeout: ranks that did not come within `timeout_s` seconds (named).
        CollectiveError: the store fails, or the ranks are on different machines (named).
    """
    plane = control_plane()
    peer = Peer(
        rank=ranks[own],
        address=plane.address,
        process=ProcessId.of_this_process(),
        host=host_name(),
        machine=machine_id(),
        module=os.environ.get("HLS_MODULE_ID", ""),
    )
    card = {"version": _VERSION, "token": secrets.token_hex(16), "peer": peer.to_plain()}
    keys = [f"hccl/{rank}" for rank in range(len(ranks))]
    try:
        store.set(keys[own], json.dumps(card))
        try:
            store.wait(keys, timedelta(seconds=timeout_s))
        except (dist.DistStoreError, RuntimeError) as error:
            missing = [str(ranks[index]) for index, key in enumerate(keys) if not store.check([key])]
            if not missing:
                raise
            raise CollectiveTimeout(
                f"process group {label}: rank {ranks[own]} waited {timeout_s:g} s for rank(s) "
                f"{', '.join(missing)} to join; "
                "start all ranks, or allow more time (init_process_group(timeout=...), HPUCLUSTER_COLLECTIVE_TIMEOUT)"
            ) from error
        cards = [json.loads(data) for data in store.multi_get(keys)]
    except CollectiveError:
        raise
    except (dist.DistError, RuntimeError) as error:
        raise CollectiveError(
            f"process group {label}: the rendezvous store failed ({error}); it ends with the process that serves it, "
            "usually rank 0"
        ) from error
    peers = [Peer.from_plain(entry["peer"]) for entry in cards]
    for other in peers:
        if other.machine != peers[0].machine:
            raise CollectiveError(
                f"process group {label}: rank {peers[0].rank} runs on {peers[0].host} and "
                f"rank {other.rank} on {other.host}; "
                "the ranks of an hccl group must be on one machine"
            )
    return plane.join(cards[0]["token"], own, peers)
