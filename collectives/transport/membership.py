"""What one rank knows of the others of its group: where they are, whether they live, what they have offered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from device.liveness import ProcessId

from ..errors import CollectiveTimeout, PeerLost, SharedMemoryError
from .lanes import Lanes
from .shared_memory import Segment
from .wire_address import WireAddress

_LOOK_S = 0.1
_WIRE_KINDS = ("failed", "left")  # whoever does not share memory with us has no segments to offer


@dataclass(frozen=True)
class Peer:
    """A rank as its peers see it. `rank` counts in the whole job; `address` is its control socket, for ranks with the
    same `machine`; `wire` is for the others, where there are any. `network` says whose interfaces it has.
    """

    rank: int
    address: str
    process: ProcessId
    host: str
    machine: str
    network: str
    module: str
    wire: WireAddress | None = None

    def to_plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Peer:
        wire = plain.get("wire")
        parts = {"process": ProcessId(**plain["process"]), "wire": WireAddress(**wire) if wire else None}
        return cls(**{**plain, **parts})


class Membership:
    """One group's peers (index = rank in the group) and the messages that came from them.

    `transmit(place, message)` sends a control message to a peer. `lanes` lead to the peers on other machines.
    """

    def __init__(
        self,
        token: str,
        own: int,
        peers: Sequence[Peer],
        transmit: Callable[[int, dict[str, Any]], object],
        lanes: Lanes | None = None,
    ) -> None:
        self.token = token
        self.own = own
        self.peers = list(peers)
        self.lanes = lanes
        self.is_forked = False
        self.closed_because: str | None = None
        self._transmit = transmit
        self._news = threading.Condition()
        self._trouble: dict[int, str] = {}
        self._segments: dict[str, Segment | str] = {}
        self._mapped: dict[str, dict[int, str]] = {}
        self._announced = False

    def is_far(self, rank: int) -> bool:
        """Is a rank on another machine?"""
        return self.peers[rank].machine != self.peers[self.own].machine

    @property
    def is_on_one_machine(self) -> bool:
        return not any(self.is_far(rank) for rank in range(len(self.peers)))

    # -- what others said ----------------------------------------------------------------------------------

    def receive_far(self, key: str, message: dict[str, Any]) -> None:
        """A control message has come over the network, from the owner of a public key (called by the wire's thread).

        Raises:
            ValueError: it is not the sender's, or none for another machine.
        """
        sender, kind = int(message["from"]), message["kind"]
        wire = self.peers[sender].wire
        if wire is None or wire.key != key or kind not in _WIRE_KINDS:
            raise ValueError(f"a message {kind!r} in the name of rank {self.peers[sender].rank}")
        self.receive(sender, message)

    def receive(self, sender: int, message: dict[str, Any]) -> None:
        """A control message has come (called by the control thread)."""
        kind = message["kind"]
        if kind == "failed":
            self.note_trouble(sender, f"{message['text']} (reported by rank {self.peers[sender].rank})")
        elif kind == "left":
            self.note_trouble(sender, f"rank {self.peers[sender].rank} has left the group: {message['text']}")
        elif kind == "segment":
            self._map(sender, message)
        elif kind == "mapped":
            with self._news:
                self._mapped.setdefault(message["label"], {})[sender] = message["text"]
                self._news.notify_all()

    def note_trouble(self, rank: int, text: str) -> None:
        """Rank `rank` will not take part any more. The first reason stays."""
        with self._news:
            self._trouble.setdefault(rank, text)
            self._news.notify_all()

    def trouble(self, rank: int) -> str | None:
        """Why nothing more is to be expected of a rank; None while all is well."""
        return self._trouble.get(rank)

    def _map(self, sender: int, message: dict[str, Any]) -> None:
        label, text = message["label"], ""
        result: Segment | str
        try:
            result = Segment.attach(message["name"], message["path"], message["nbytes"], message["inode"])
        except SharedMemoryError as error:
            result = text = str(error)
        if not text or message["is_last"]:
            with self._news:
                self._segments[label] = result
                self._news.notify_all()
        self.send(sender, kind="mapped", label=label, text=text)

    # -- what we say ---------------------------------------------------------------------------------------

    def send(self, rank: int, **message: Any) -> None:
        """Send a control message to one rank (plain data only)."""
        if self.is_forked:
            return
        if rank == self.own:
            self.receive(rank, message)
        else:
            self._transmit(rank, {"token": self.token, "from": self.own, **message})

    def announce(self, kind: str, text: str) -> None:
        """Tell all that this rank `failed` or `left`; only the first announcement goes out."""
        if self._announced:
            return
        self._announced = True
        for rank in range(len(self.peers)):
            if rank != self.own:
                self.send(rank, kind=kind, text=text)

    # -- segments ------------------------------------------------------------------------------------------

    def offer(self, label: str, segment: Segment, receivers: Sequence[int], deadline: float, what: str) -> None:
        """Have `receivers` map a new segment, then close it to others. Returns once all have.

        `what` says in messages what this is for; `deadline` is in seconds of time.monotonic().

        Raises:
            SharedMemoryError: a receiver cannot map it.
            PeerLost, CollectiveTimeout: a receiver has gone, or does not answer before `deadline`.
        """
        try:
            answers = self._offer(label, segment, receivers, deadline, what, is_last=False)
            if any(answers.values()):
                segment.give_name()
                answers = self._offer(label, segment, receivers, deadline, what, is_last=True)
        finally:
            segment.close()
        for rank, text in sorted(answers.items()):
            if text:
                raise SharedMemoryError(f"{what}: rank {self.peers[rank].rank}: {text}")

    def _offer(
        self, label: str, segment: Segment, receivers: Sequence[int], deadline: float, what: str, is_last: bool
    ) -> dict[int, str]:
        """One try; returns what each receiver could not do (empty text: all is well)."""
        with self._news:
            answers = self._mapped[label] = {}
        file = {"name": segment.name, "path": segment.path, "nbytes": segment.nbytes, "inode": segment.inode}
        for rank in receivers:
            self.send(rank, kind="segment", label=label, is_last=is_last, **file)
        self._await(what, lambda: [rank for rank in receivers if rank not in answers], deadline)
        return answers

    def accept(self, label: str, owner: int, deadline: float, what: str) -> Segment:
        """The segment that `owner` offers under this label; waits for it.

        Raises:
            SharedMemoryError: it could not be mapped here.
            PeerLost, CollectiveTimeout: the owner has gone, or does not offer before `deadline`.
        """
        self._await(what, lambda: [] if label in self._segments else [owner], deadline)
        segment = self._segments.pop(label)
        if isinstance(segment, str):
            raise SharedMemoryError(f"{what}: {segment}")
        return segment

    def _await(self, what: str, missing: Callable[[], list[int]], deadline: float) -> None:
        with self._news:
            while laggards := missing():
                for rank in laggards:
                    if reason := self._trouble.get(rank):
                        raise PeerLost(f"{what}: {reason}")
                if time.monotonic() > deadline:
                    raise CollectiveTimeout(f"{what}: timed out waiting for {self.name_ranks(laggards)}")
                self._news.wait(_LOOK_S)

    def name_ranks(self, ranks: Sequence[int]) -> str:
        """`rank 3` or `ranks 3, 5`, as the whole job counts them."""
        names = ", ".join(str(self.peers[rank].rank) for rank in ranks)
        return f"rank {names}" if len(ranks) == 1 else f"ranks {names}"

    def describe(self, rank: int) -> str:
        """A rank with its process, for messages about its end."""
        peer = self.peers[rank]
        return f"rank {peer.rank} (process {peer.process.pid} on {peer.host})"
