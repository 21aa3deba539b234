"""The control plane: one ZeroMQ inbox per process, and one thread that reads it and watches the peers'
processes.

Rendezvous answers, offers of shared memory, failures and departures travel here as JSON; tensor data never
does. Every message carries its group's token, a random text that only the group's ranks know through the
rendezvous store; messages without one are dropped. The sockets are Unix sockets with abstract names, so they
leave no file behind.
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
from dataclasses import dataclass, field
from multiprocessing.util import Finalize
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from device.liveness import ProcessId

from .membership import Membership, Peer

_log = logging.getLogger(__name__)
_TICK_MS = 500
_GRACE_S = 0.3  # a farewell may arrive on another socket a little after the connection's end
_LINGER_MS = 500
_MAX_EARLY = 4096


@dataclass
class _Link:
    """The connection to one peer process."""

    socket: Any
    monitor: Any
    process: ProcessId
    descriptor: int | None = None
    ended: str | None = None
    closed_at: float | None = None
    members: list[tuple[weakref.ref[Membership], int]] = field(default_factory=list)


class ControlPlane:
    """This process's end of all control connections. Made once; see `control_plane`."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._context = zmq.Context()
        self._context.setsockopt(zmq.LINGER, _LINGER_MS)
        self._inbox = self._context.socket(zmq.PULL)
        self.address = f"ipc://@hpucluster-{os.getpid()}-{secrets.token_hex(8)}"
        self._inbox.bind(self.address)
        self._lock = threading.RLock()
        self._links: dict[str, _Link] = {}
        self._groups: dict[str, Membership] = {}
        self._early: list[dict[str, Any]] = []
        self._closing = False
        self._at_end: list[Callable[[], None]] = []
        self._alarm = self._context.socket(zmq.PAIR)
        self._alarm.bind("inproc://alarm")
        self._bell = self._context.socket(zmq.PAIR)
        self._bell.connect("inproc://alarm")
        self._thread = threading.Thread(target=self._run, name="hccl-control", daemon=True)
        self._thread.start()

    # -- groups --------------------------------------------------------------------------------------------

    def join(self, token: str, own: int, peers: Sequence[Peer]) -> Membership:
        """Enter a group: connect to its peers and watch their processes."""
        membership = Membership(token, own, peers, self._transmit)
        with self._lock:
            for rank, peer in enumerate(peers):
                if rank != own:
                    link = self._links.get(peer.address) or self._connect(peer)
                    link.members.append((weakref.ref(membership), rank))
                    if link.ended:
                        membership.note_trouble(rank, f"{membership.describe(rank)} {link.ended}")
            self._groups[token] = membership
            early = [message for message in self._early if message["token"] == token]
            self._early = [message for message in self._early if message["token"] != token]
        for message in early:
            self._deliver(membership, message)
        self._ring()
        return membership

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

    def _connect(self, peer: Peer) -> _Link:
        socket = self._context.socket(zmq.PUSH)
        socket.setsockopt(zmq.RECONNECT_IVL, -1)
        monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        socket.connect(peer.address)
        link = _Link(socket, monitor, peer.process)
        if peer.process.is_visible():
            try:
                link.descriptor = peer.process.open()
            except ProcessLookupError:
                link.ended = "has died"
        self._links[peer.address] = link
        return link

    # -- messages ------------------------------------------------------------------------------------------

    def _transmit(self, address: str, message: dict[str, Any]) -> None:
        with self._lock:
            link = self._links.get(address)
            if self._closing or link is None or link.ended:
                return
            try:
                link.socket.send(json.dumps(message).encode(), zmq.NOBLOCK)
            except zmq.Again:
                _log.debug("a control message to %s is lost: the peer has gone", address)

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
            pending_close = any(link.closed_at for link in links)
            ready = dict(poller.poll(_TICK_MS if not pending_close else int(_GRACE_S * 1000)))
            if self._alarm in ready:
                self._drain(self._alarm)
            # Messages first: a farewell that came in time explains the end of a process.
            self._drain(self._inbox, self._receive)
            for link in links:
                self._look_at(link, ready)

    def _drain(self, socket: Any, handle: Callable[[bytes], None] | None = None) -> None:
        while True:
            try:
                data = socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            if handle:
                handle(data)

    def _look_at(self, link: _Link, ready: dict[Any, int]) -> None:
        if link.monitor in ready:
            recv_monitor_message(link.monitor)
            link.closed_at = link.closed_at or time.monotonic()
        if link.descriptor is not None:
            if link.descriptor in ready:
                self._end(link, "has died")
        elif link.process.is_visible() and not link.process.is_alive():
            self._end(link, "has died")
        if link.closed_at and not link.ended and time.monotonic() - link.closed_at >= _GRACE_S:
            self._end(link, "has closed its control connection")

    def _end(self, link: _Link, how: str) -> None:
        link.ended = how
        with self._lock:
            if link.descriptor is not None:
                os.close(link.descriptor)
                link.descriptor = None
            link.socket.disable_monitor()
            link.socket.close(0)
            members = list(link.members)
        for reference, rank in members:
            membership = reference()
            if membership is not None:
                membership.note_trouble(rank, f"{membership.describe(rank)} {how}")

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
        if not self._thread.is_alive():
            self._context.destroy(linger=_LINGER_MS)


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
