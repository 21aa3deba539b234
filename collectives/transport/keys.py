"""Who may connect: a CURVE key pair of each process, made for one run, and the gate that knows the others' public keys.

The public keys travel through torch.distributed's rendezvous store. Whoever is not in it is refused, whether it has no
key, a key of its own, or this process's public key.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import zmq
from zmq.utils import z85
from zmq.utils.monitor import recv_monitor_message

_log = logging.getLogger(__name__)
_ZAP = "inproc://zeromq.zap.01"  # where libzmq asks whether a client may come in (ZeroMQ RFC 27)
_VERSION, _CURVE, _FIELDS = b"1.0", b"CURVE", 7
DOMAIN = b"hpucluster"
REFUSALS = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH


@dataclass(frozen=True)
class KeyPair:
    """A CURVE key pair, both as 40 characters of Z85. The secret one never leaves the process."""

    public: bytes
    secret: bytes

    @classmethod
    def make(cls) -> KeyPair:
        return cls(*zmq.curve_keypair())

    def serve(self, socket: Any) -> None:
        """Let only clients with admitted keys connect to `socket`."""
        socket.setsockopt(zmq.ZAP_DOMAIN, DOMAIN)
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.CURVE_SECRETKEY, self.secret)

    def approach(self, socket: Any, server: bytes) -> None:
        """Have `socket` connect only to the owner of the public key `server`."""
        socket.setsockopt(zmq.CURVE_SERVERKEY, server)
        socket.setsockopt(zmq.CURVE_PUBLICKEY, self.public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, self.secret)


class Gatekeeper:
    """Answers libzmq's question about every client of this context's CURVE servers, in a thread of its own.

    Messages of an admitted client carry its public key as `User-Id`.
    """

    def __init__(self, context: zmq.Context) -> None:
        self._context = context
        self._admitted: frozenset[bytes] = frozenset()
        self._has_warned = False
        self._lock = threading.Lock()
        self._questions = context.socket(zmq.REP)
        self._questions.bind(_ZAP)
        self._failures: Any = None
        self._thread = threading.Thread(target=self._run, name="hccl-gate", daemon=True)

    def watch(self, server: Any) -> None:
        """Begin, and tell of failed handshakes with `server`, a socket that is not yet bound."""
        # pyzmq's own address is that of the socket's descriptor, which the next server may get before this one is gone.
        self._failures = server.get_monitor_socket(REFUSALS, f"inproc://refusals-{secrets.token_hex(8)}")
        self._thread.start()

    def admit(self, keys: Iterable[bytes]) -> None:
        """Let the owners of these public keys in from now on."""
        with self._lock:
            self._admitted |= frozenset(keys)

    def stop(self) -> None:
        bell = self._context.socket(zmq.REQ)
        bell.connect(_ZAP)
        bell.send(b"")
        self._thread.join(timeout=2)
        bell.close(0)
        if not self._thread.is_alive():
            self._questions.unbind(_ZAP)  # at once, for the next gate; closing takes its time
            self._questions.close(0)
            self._failures.close(0)

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._questions, zmq.POLLIN)
        poller.register(self._failures, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self._failures in ready:
                event = recv_monitor_message(self._failures)
                self._refused(f"{event['endpoint'].decode(errors='replace')}: a client without keys of this run")
            if self._questions in ready:
                question = self._questions.recv_multipart()
                if len(question) == 1:  # ours, to end
                    return
                self._answer(question)

    def _answer(self, question: list[bytes]) -> None:
        key = z85.encode(question[6]) if len(question) == _FIELDS and question[5] == _CURVE else b""
        if key in self._admitted:
            status, text, user = b"200", b"OK", key
        else:
            status, text, user = b"400", b"not a key of this run", b""
            address = question[3].decode(errors="replace") if len(question) > 3 else "?"
            self._refused(f"{address}: its key is none of this run's")
        request = question[1] if len(question) > 1 else b""
        self._questions.send_multipart([_VERSION, request, status, text, user, b""])

    def _refused(self, why: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning("a connection was refused, %s (further ones are refused without a word)", why)
