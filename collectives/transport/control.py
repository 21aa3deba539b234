"""The control plane: one ZeroMQ inbox per process, and one thread that reads it and watches the peers'
processes.

Rendezvous answers, offers of shared memory, failures and departures travel here as JSON. Every message carries its
group's token, a random text that only the group's ranks know through the rendezvous store; messages without one are
dropped. The sockets are Unix sockets with abstract names, so they leave no file behind. To ranks on other machines the
same messages go by `Wire`, which exists once a group has any, and carries their data too.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from multiprocessing.util import Finalize
from typing import Any

import zmq

from ..errors import CollectiveError, CollectiveTimeout
from . import wire
from .addresses import choose_place
from .lanes import Lanes
from .link import Link
from .membership import Membership, Peer
from .wire_address import WireAddress

_log = logging.getLogger(__name__)
_TICK_MS = 500
_CLOSING_TICK_MS = 200
_LINGER_MS = 500
_MAX_EARLY = 4096
_MAX_SOCKETS = 16 * 1024  # a link needs three


class ControlPlane:
    """This process's end of all connections. Made once; see `control_plane`."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._context = zmq.Context()
        self._context.setsockopt(zmq.LINGER, _LINGER_MS)
        self._context.set(zmq.MAX_SOCKETS, _MAX_SOCKETS)
        self._inbox = self._context.socket(zmq.PULL)
        self.address = f"ipc://@hpucluster-{os.getpid()}-{secrets.token_hex(8)}"
        self._inbox.bind(self.address)
        self._lock = threading.RLock()
        self._links: dict[str, Link] = {}
        self._links_changed = threading.Condition(self._lock)
        self._groups: dict[str, Membership] = {}
        self._early: list[dict[str, Any]] = []
        self._wire: wire.Wire | None = None
        self._closing = False
        self._at_end: list[Callable[[], None]] = []
        self._alarm = self._context.socket(zmq.PAIR)
        self._alarm.bind("inproc://alarm")
        self._bell = self._context.socket(zmq.PAIR)
        self._bell.connect("inproc://alarm")
        self._thread = threading.Thread(target=self._run, name="hccl-control", daemon=True)
        self._thread.start()

    # -- groups --------------------------------------------------------------------------------------------

    def open_wire(self, is_one_network: bool) -> WireAddress:
        """Where ranks on other machines reach this process; it listens from now on. `is_one_network`: all have this
        process's network interfaces.

        Raises:
            ConfigurationError: see `choose_place` and `Wire`.
        """
        with self._lock:
            if self._wire is None:
                place = choose_place(is_one_network)
                self._wire = wire.Wire(self._context, place, self._receive_far, self._lanes_of)
            return self._wire.address

    def join(self, token: str, own: int, peers: Sequence[Peer]) -> Membership:
        """Enter a group: connect to its peers on this machine, watch their processes, and let those on other machines
        connect.
        """
        far = {
            place: peer.wire.key.encode()
            for place, peer in enumerate(peers)
            if peer.wire is not None and peer.machine != peers[own].machine
        }
        lanes = None
        if far:
            assert self._wire is not None
            self._wire.gate.admit(far.values())
            lanes = self._make_lanes(bytes.fromhex(token), own, peers, far)

        def transmit(place: int, message: dict[str, Any]) -> None:
            self._transmit(peers[place], place in far, message)

        membership = Membership(token, own, peers, transmit, lanes)
        with self._lock:
            for place in range(len(peers)):
                if place != own and place not in far:
                    self._attach(membership, place)
            self._groups[token] = membership
            early = [message for message in self._early if message["token"] == token]
            self._early = [message for message in self._early if message["token"] != token]
        for message in early:
            self._deliver(membership, message)
        self._ring()
        return membership

    def reach(self, membership: Membership, deadline: float, what: str) -> None:
        """Connect to the peers on other machines, which must have joined. `what` says in messages what for; `deadline`
        is in seconds of time.monotonic().

        Raises:
            CollectiveError: a peer cannot be reached.
            CollectiveTimeout: a connection was not made before `deadline`.
        """
        far = [place for place in range(len(membership.peers)) if membership.is_far(place)]
        with self._links_changed:
            links = {place: self._attach(membership, place) for place in far}
            self._ring()
            while waiting := [place for place, link in links.items() if not link.is_up]:
                for place in waiting:
                    if (how := links[place].ended) is not None:
                        raise CollectiveError(f"{what}: {membership.describe(place)} {how}")
                if time.monotonic() > deadline:
                    raise CollectiveTimeout(f"{what}: cannot connect to {membership.name_ranks(waiting)} in time")
                self._links_changed.wait(0.1)

    def leave(self, membership: Membership) -> None:
        """Forget a group (its ranks were told before)."""
        with self._lock:
            self._groups.pop(membership.token, None)

    def memberships(self) -> list[Membership]:
        with self._lock:
            return list(self._groups.values())

    def at_end(self, action: Callable[[], None]) -> None:
        """Call `action` when the process ends, before the connections close."""
        if action not in self._at_end:
            self._at_end.append(action)

    def _attach(self, membership: Membership, place: int) -> Link:
        """Have the link to a peer, new or not, tell the membership of its end."""
        peer = membership.peers[place]
        address = _address(peer, membership.is_far(place))
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = self._connect(peer, membership.is_far(place))
        link.members.append((weakref.ref(membership), place))
        if link.ended:
            membership.note_trouble(place, f"{membership.describe(place)} {link.ended}")
        return link

    def _connect(self, peer: Peer, is_far: bool) -> Link:
        if not is_far:
            return Link(self._context, peer.address, peer.process)
        # A process number says nothing on another machine.
        assert self._wire is not None and peer.wire is not None
        return Link(self._context, peer.wire.endpoint, None, self._wire.keys, peer.wire.key.encode())

    def _make_lanes(self, token: bytes, own: int, peers: Sequence[Peer], far: dict[int, bytes]) -> Lanes:
        def send_piece(place: int, lane: int, number: int, payload: Any, copy: bool) -> bool:
            return self._post(_address(peers[place], True), wire.piece(token, own, lane, number, payload), copy)

        def send_credit(place: int, lane: int, number: int) -> bool:
            return self._post(_address(peers[place], True), wire.credit(token, own, lane, number))

        return Lanes(far, send_piece, send_credit)

    # -- messages ------------------------------------------------------------------------------------------

    def _transmit(self, peer: Peer, is_far: bool, message: dict[str, Any]) -> None:
        parts = wire.control_message(message) if is_far else [json.dumps(message).encode()]
        if not self._post(_address(peer, is_far), parts):
            _log.debug("a control message to rank %d is lost: it has gone", peer.rank)

    def _post(self, address: str, parts: Sequence[Any], copy: bool = True) -> bool:
        link = self._links.get(address)
        return link is not None and not self._closing and link.send(parts, copy)

    def _receive(self, data: bytes) -> None:
        try:
            message = json.loads(data)
            token = message["token"]
        except (ValueError, KeyError, TypeError):
            _log.warning("a control message that is not one of ours was dropped")
            return
        with self._lock:
            membership = self._groups.get(token)
            if membership is None:
                self._early = [*self._early[-_MAX_EARLY:], message]
                return
        self._deliver(membership, message)

    def _deliver(self, membership: Membership, message: dict[str, Any]) -> None:
        try:
            membership.receive(int(message["from"]), message)
        except (KeyError, IndexError, ValueError, TypeError):
            _log.warning("a malformed control message was dropped: %r", message)

    def _receive_far(self, key: bytes, message: dict[str, Any]) -> None:
        # Nobody connects before all have joined, so a group that is not here has been left.
        membership = self._groups.get(message["token"])
        if membership is not None:
            membership.receive_far(key.decode(), message)

    def _lanes_of(self, token: str) -> Lanes | None:
        membership = self._groups.get(token)
        return membership.lanes if membership is not None else None

    def _ring(self) -> None:
        with self._lock:
            if not self._closing:
                self._bell.send(b"")

    # -- the thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing:
            poller = zmq.Poller()
            poller.register(self._inbox, zmq.POLLIN)
            poller.register(self._alarm, zmq.POLLIN)
            with self._lock:
                links = [link for link in self._links.values() if not link.ended]
            for link in links:
                poller.register(link.monitor, zmq.POLLIN)
                if link.descriptor is not None:
                    poller.register(link.descriptor, zmq.POLLIN)
            is_closing = any(link.is_closing for link in links)
            ready = dict(poller.poll(_CLOSING_TICK_MS if is_closing else _TICK_MS))
            if self._alarm in ready:
                self._drain(self._alarm)
            # Messages first: a farewell that came in time explains the end of a process.
            self._drain(self._inbox, self._receive)
            for link in links:
                was_up = link.is_up
                how = link.look(ready)
                if how is not None:
                    self._end(link, how)
                elif link.is_up != was_up:
                    with self._links_changed:
                        self._links_changed.notify_all()

    def _drain(self, socket: Any, handle: Callable[[bytes], None] | None = None) -> None:
        while True:
            try:
                data = socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            if handle:
                handle(data)

    def _end(self, link: Link, how: str) -> None:
        with self._links_changed:
            link.end(how)
            members = list(link.members)
            self._links_changed.notify_all()
        for reference, place in members:
            membership = reference()
            if membership is not None:
                membership.note_trouble(place, f"{membership.describe(place)} {how}")

    # -- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The process ends: say good-bye to all groups and close."""
        if os.getpid() != self._owner or self._closing:
            return
        for action in self._at_end:
            action()
        for membership in self.memberships():
            membership.announce("left", "its process is ending")
        with self._lock:
            self._closing = True
            self._bell.send(b"")
        self._thread.join(timeout=2)
        if self._thread.is_alive():
            return
        if self._wire is not None:
            self._wire.stop()
        for link in self._links.values():
            link.close()
        self._context.destroy(linger=_LINGER_MS)


def _address(peer: Peer, is_far: bool) -> str:
    """What the link to a peer is known by."""
    if not is_far:
        return peer.address
    assert peer.wire is not None
    return f"{peer.wire.endpoint} {peer.wire.key}"  # a later process may get the same port


_plane: ControlPlane | None = None
_inherited: list[ControlPlane] = []
_plane_lock = threading.Lock()


def control_plane() -> ControlPlane:
    """The control plane of this process; made by the first call."""
    global _plane
    with _plane_lock:
        if _plane is None:
            _plane = ControlPlane()
            atexit.register(_plane.close)
            # A forked child of multiprocessing ends without atexit, but runs these.
            Finalize(None, _plane.close, exitpriority=0)
        return _plane


def _forget_in_child() -> None:
    # A forked child (a DataLoader worker) has neither the thread nor the right to speak for the rank.
    global _plane
    if _plane is not None:
        for membership in _plane._groups.values():
            membership.is_forked = True
        atexit.unregister(_plane.close)
        _inherited.append(_plane)  # never finalized here: its sockets are the parent's
        _plane = None


os.register_at_fork(after_in_child=_forget_in_child)
