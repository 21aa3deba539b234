"""The network side of a process: one TCP port behind which a thread receives what ranks on other machines send.

Messages are of three kinds, told apart by their first byte:

    0, JSON                                                   control, as on the local sockets
    1, token, sender's place, lane, number | payload          a piece of data
    2, token, receiver's place, lane, number                  so many pieces of a lane have been taken

Nothing else is ever interpreted. The sender's place must be that of the owner of the connection's key.
"""

from __future__ import annotations

import json
import logging
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import zmq

from device.errors import ConfigurationError

from .addresses import Place, endpoint, is_version_6, ports
from .keys import Gatekeeper, KeyPair
from .lanes import Lanes
from .link import HIGH_WATER
from .wire_address import WireAddress

_log = logging.getLogger(__name__)
CONTROL, PIECE, CREDIT = 0, 1, 2
_HEAD = struct.Struct("<B16sIHQ")
_LARGEST_MESSAGE = 4 << 20
_STOP = "inproc://wire"


def control_message(message: dict[str, Any]) -> list[bytes]:
    return [bytes((CONTROL,)) + json.dumps(message).encode()]


def piece(token: bytes, own: int, lane: int, number: int, payload: Any) -> list[Any]:
    """A piece of data; `payload` has a buffer."""
    return [_HEAD.pack(PIECE, token, own, lane, number), payload]


def credit(token: bytes, own: int, lane: int, number: int) -> list[bytes]:
    return [_HEAD.pack(CREDIT, token, own, lane, number)]


class Wire:
    """This process's port. `on_control(key, message)` gets control messages with their sender's public key; `lanes_of`
    finds the lanes of the group with a token.

    Raises:
        ConfigurationError: no port of HPUCLUSTER_WIRE_PORTS is free, or the address is none of this machine's.
    """

    def __init__(
        self,
        context: zmq.Context,
        place: Place,
        on_control: Callable[[bytes, dict[str, Any]], None],
        lanes_of: Callable[[str], Lanes | None],
    ) -> None:
        self.keys = KeyPair.make()
        self.gate = Gatekeeper(context)
        self._context = context
        self._on_control = on_control
        self._lanes_of = lanes_of
        self._inbox = context.socket(zmq.PULL)
        self._inbox.setsockopt(zmq.RCVHWM, HIGH_WATER)
        self._inbox.setsockopt(zmq.MAXMSGSIZE, _LARGEST_MESSAGE)
        self._inbox.setsockopt(zmq.IPV6, is_version_6(place.announced))
        self.keys.serve(self._inbox)
        self.gate.watch(self._inbox)
        port = self._bind(place.bound)
        self.address = WireAddress(endpoint(place.announced, port), self.keys.public.decode())
        self._inbox.bind(_STOP)
        self._thread = threading.Thread(target=self._run, name="hccl-wire", daemon=True)
        self._thread.start()

    def _bind(self, address: str) -> int:
        problem = ""
        for port in ports():
            try:
                self._inbox.bind(endpoint(address, port or "*"))
            except zmq.ZMQError as error:
                problem = str(error)
                continue
            return int(self._inbox.getsockopt(zmq.LAST_ENDPOINT).rpartition(b":")[2])
        self.gate.stop()
        self._inbox.close(0)
        raise ConfigurationError(
            f"cannot listen on {address} for ranks of other machines: {problem}; choose other ports "
            "(HPUCLUSTER_WIRE_PORTS) or another interface (HPUCLUSTER_WIRE_INTERFACE)"
        )

    def stop(self) -> None:
        """End the threads. The context must still be open."""
        bell = self._context.socket(zmq.PUSH)
        bell.connect(_STOP)
        bell.send(b"")
        self._thread.join(timeout=2)
        bell.close(0)
        self.gate.stop()

    # -- the thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            frames = self._inbox.recv_multipart(copy=False)
            try:
                sender = frames[0].get("User-Id")
            except zmq.ZMQError:
                return  # no connection from outside lacks it: this is `stop`
            try:
                self._receive(sender.encode(), frames)
            except (ValueError, KeyError, TypeError, IndexError, struct.error) as error:
                _log.warning("a malformed message from the network was dropped: %r", error)

    def _receive(self, sender: bytes, frames: Sequence[Any]) -> None:
        head = frames[0].buffer
        kind = head[0]
        if kind == CONTROL and len(frames) == 1:
            self._on_control(sender, json.loads(bytes(head[1:])))
            return
        _, token, place, lane, number = _HEAD.unpack(head)
        lanes = self._lanes_of(token.hex())
        if lanes is None:
            return  # of a group that was left
        lanes.check_sender(place, sender)
        if kind == PIECE and len(frames) == 2:
            lanes.receive(place, lane, number, frames[1].buffer)
        elif kind == CREDIT and len(frames) == 1:
            lanes.receive_credit(place, lane, number)
        else:
            raise ValueError(f"kind {kind} with {len(frames)} parts")
