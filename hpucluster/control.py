"""The control channel between the driver and a card's process: JSON messages over a Unix socket.

A message is a four-byte length and a JSON object. The driver's first message may carry file descriptors.
Messages from the card's process: `hello`, `ready`, `snapshot`, `failed`, `ended`, `exiting`.
Messages from the driver: `place`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Iterable
from typing import Any

Message = dict[str, Any]

_HEADER = struct.Struct("!I")
_CHUNK = 1 << 16


class Channel:
    """One end of a control channel. `send` may be called from any thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._send_lock = threading.Lock()
        self._received = bytearray()
        self.closed = False
        """True once the other end has gone."""

    def fileno(self) -> int:
        """The socket's file descriptor, for selectors."""
        return self._connection.fileno()

    def send(self, message: Message, descriptors: Iterable[int] = ()) -> None:
        """Send one message, with copies of `descriptors`. Raises OSError where the other end has gone."""
        body = json.dumps(message).encode()
        with self._send_lock:
            socket.send_fds(self._connection, [_HEADER.pack(len(body))], list(descriptors))
            self._connection.sendall(body)

    def receive(self, max_descriptors: int = 0) -> tuple[Message, list[int]]:
        """Wait for one message and its file descriptors. Raises EOFError where the other end has gone."""
        header, descriptors, _, _ = socket.recv_fds(self._connection, _HEADER.size, max_descriptors)
        header += self._read_exactly(_HEADER.size - len(header)) if header else b""
        if not header:
            self.closed = True
            raise EOFError("the control channel was closed by the other end")
        body = self._read_exactly(_HEADER.unpack(header)[0])
        return json.loads(body), descriptors

    def _read_exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = self._connection.recv(count - len(data))
            if not chunk:
                self.closed = True
                raise EOFError("the control channel was closed within a message")
            data += chunk
        return bytes(data)

    def receive_available(self) -> list[Message]:
        """The whole messages that have arrived. Does not wait; sets `closed` where the other end has gone."""
        try:
            while True:
                chunk = self._connection.recv(_CHUNK, socket.MSG_DONTWAIT)
                if not chunk:
                    self.closed = True
                    break
                self._received += chunk
        except BlockingIOError:
            pass
        except OSError:  # reset: the process at the other end was killed
            self.closed = True
        messages = []
        while len(self._received) >= _HEADER.size:
            end = _HEADER.size + _HEADER.unpack_from(self._received)[0]
            if len(self._received) < end:
                break
            messages.append(json.loads(self._received[_HEADER.size : end]))
            del self._received[:end]
        return messages

    def close(self) -> None:
        """Close this end."""
        self.closed = True
        with contextlib.suppress(OSError):
            self._connection.close()


def listen(path: str) -> socket.socket:
    """A listening Unix socket at `path`; only this user may connect where its folder is private."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(path)
    server.listen(1024)
    return server


def connect(path: str) -> Channel:
    """Connect to the driver that listens at `path`."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    return Channel(connection)
