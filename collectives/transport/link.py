"""The connection by which this process sends to one other process of its groups."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from device.liveness import ProcessId

from .keys import REFUSALS, KeyPair
from .membership import Membership

HIGH_WATER = 4096  # messages; the credits of `lanes` keep far below
_HEARTBEAT_MS = 1000
_HEARTBEAT_TIMEOUT_MS = 5000
_CONNECT_TIMEOUT_MS = 10_000
_CONNECT_LIMIT_S = 20.0  # for connection and handshake together
_GRACE_S = 0.3  # a farewell may arrive on another socket a little after the connection's end
_WIRE_GRACE_S = 1.0  # the same across a network
_WIRE_LINGER_MS = 5000  # for what was sent and is still on its way when the process ends


class Link:
    """A socket that sends, and whatever tells that the other end is gone.

    `process` is watched, where it can be seen from here. With `keys` the connection is to another machine: encrypted,
    only to the owner of the public key `server`, and with heartbeats.
    """

    def __init__(
        self,
        context: zmq.Context,
        address: str,
        process: ProcessId | None,
        keys: KeyPair | None = None,
        server: bytes = b"",
    ) -> None:
        self.address = address
        self.is_wire = keys is not None
        self.ended: str | None = None
        self.is_up = not self.is_wire
        self.members: list[tuple[weakref.ref[Membership], int]] = []
        self.descriptor: int | None = None
        self._process = process if process is not None and process.is_visible() else None
        self._closed_at: float | None = None
        self._begun_at = time.monotonic()
        self._lock = threading.Lock()
        self._socket = context.socket(zmq.PUSH)
        self._socket.setsockopt(zmq.SNDHWM, HIGH_WATER)
        self._socket.setsockopt(zmq.RECONNECT_IVL, -1)
        events = zmq.EVENT_DISCONNECTED
        if keys is not None:
            keys.approach(self._socket, server)
            self._socket.setsockopt(zmq.IMMEDIATE, 1)  # with the connection goes what could not be sent any more
            self._socket.setsockopt(zmq.IPV6, "[" in address)
            self._socket.setsockopt(zmq.CONNECT_TIMEOUT, _CONNECT_TIMEOUT_MS)
            self._socket.setsockopt(zmq.HANDSHAKE_IVL, _CONNECT_TIMEOUT_MS)
            self._socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
            self._socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MS)
            # Heartbeats wait behind data; where that gets stuck, the kernel notices.
            self._socket.setsockopt(zmq.TCP_MAXRT, _HEARTBEAT_TIMEOUT_MS)
            events |= zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_CLOSED | REFUSALS
        self.monitor: Any = self._socket.get_monitor_socket(events)
        self._socket.connect(address)
        if self._process is not None:
            try:
                self.descriptor = self._process.open()
            except ProcessLookupError:
                self.ended = "has died"

    def send(self, parts: Sequence[Any], copy: bool = True) -> bool:
        """Hand a message over to be sent; False if the link has ended or is full. Without `copy`, memory of the parts
        is used until they are sent.
        """
        with self._lock:
            if self.ended is not None:
                return False
            try:
                self._socket.send_multipart(parts, zmq.NOBLOCK, copy=copy)
            except zmq.Again:
                return False
        return True

    @property
    def is_closing(self) -> bool:
        """The connection has ended, but a farewell may still come."""
        return self._closed_at is not None and self.ended is None

    def look(self, ready: dict[Any, int]) -> str | None:
        """What has happened, by the poller's answer: why the link ends now, or None."""
        if self.monitor in ready:
            self._hear()
        if self.descriptor is not None:
            if self.descriptor in ready:
                return "has died"
        elif self._process is not None and not self._process.is_alive():
            return "has died"
        if not self.is_up and time.monotonic() - self._begun_at > _CONNECT_LIMIT_S:
            self._closed_at = self._closed_at or time.monotonic()
        if self._closed_at is None:
            return None
        if not self.is_up:
            return (
                f"cannot be reached at {self.address}: is a firewall between, or the address one that is not valid "
                "here? (HPUCLUSTER_WIRE_PORTS, HPUCLUSTER_WIRE_ADDRESS and HPUCLUSTER_WIRE_INTERFACE choose)"
            )
        if time.monotonic() - self._closed_at < (_WIRE_GRACE_S if self.is_wire else _GRACE_S):
            return None
        if self.is_wire:
            return "has died or cannot be reached any more: its connection ended without a farewell"
        return "has closed its control connection"

    def _hear(self) -> None:
        while True:
            try:
                event = recv_monitor_message(self.monitor, zmq.NOBLOCK)["event"]
            except zmq.Again:
                return
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.is_up = True
            else:
                self._closed_at = self._closed_at or time.monotonic()

    def end(self, how: str) -> None:
        """Nothing is sent any more; `how` says why: `has died`."""
        with self._lock:
            self.ended = how
            self._release(0)

    def close(self) -> None:
        """This process ends; across the network, what was sent still goes out."""
        with self._lock:
            if self.ended is None:
                self.ended = "is not needed any more"
                self._release(_WIRE_LINGER_MS if self.is_wire else None)

    def _release(self, linger_ms: int | None) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
        self._socket.disable_monitor()
        self._socket.close(linger_ms)
