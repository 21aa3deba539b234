"""send and recv: every ordered pair of ranks has a channel, each end its own queue, so directions never block
each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from device.fences import Extent
from device.timeline import HOST

from . import header
from .arrival import Arrival
from .communicator import Communicator
from .errors import CollectiveTimeout, MismatchError
from .guard import Guard
from .ledger import Ledger
from .roce import fabric
from .timing import Line
from .transport.channel import Call, ReceiveEnd, SendEnd, SendSource
from .transport.channels import open_receive_end, open_send_end
from .work import HcclWork
from .worker import Worker

_SEND_DRAIN_S = 5.0


@dataclass
class Message:
    """One send or recv as issued: the tensor's bytes and how to finish; see `Operation` for the rest.

    `data` is what travels, of `nbytes` bytes that cost modelled time: all of them, or none (`timing_only`).
    """

    tensor: torch.Tensor
    data: np.ndarray
    nbytes: int
    tag: int
    finish: list[Callable[[], object]]
    is_on_card: bool
    extents: Sequence[Extent] = ()
    arrival: Arrival = field(default_factory=Arrival)


class _Queue:
    """One end of one channel on this rank."""

    def __init__(self, name: str, line: Line) -> None:
        self.worker = Worker(name)
        self.line = line
        self.ledger = Ledger(line)
        self.sequence = 0
        self.send_end: SendEnd | None = None
        self.receive_end: ReceiveEnd | None = None


class PointToPoint:
    """The channels of one group from and to this rank."""

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self._queues: dict[tuple[str, int], _Queue] = {}
        self._lock = threading.Lock()
        communicator.on_close(self._close)

    def send(self, message: Message, peer: int) -> HcclWork:
        """Queue a message for a rank (place in the group)."""
        source = SendSource(message.data)
        queue, work, sequence, done = self._enter("send", peer, message)

        def run(call: Call, guard: Guard) -> Arrival:
            if queue.send_end is None:
                queue.send_end = open_send_end(self._communicator.membership, self._communicator.label, peer, guard)
            return queue.send_end.send(call, source, self._namer(own_side=0, peer=peer), guard)

        # The card may go on as soon as the message cannot change any more.
        work.on_fence = lambda _: source.detach()
        queue.worker.submit(lambda: self._execute("send", peer, message, queue, work, sequence, run), done)
        return work

    def receive(self, message: Message, peer: int) -> HcclWork:
        """Queue a recv from a rank (place in the group)."""
        queue, work, sequence, done = self._enter("recv", peer, message)

        def run(call: Call, guard: Guard) -> Arrival:
            if queue.receive_end is None:
                queue.receive_end = open_receive_end(self._communicator.membership, peer, guard)
            return queue.receive_end.receive(call, message.data, self._namer(own_side=1, peer=peer), guard)

        # The card does not wait for a message: its sender may be waiting for what this card is about to compute, a
        # tensor must not be used before wait() anyway, and whether it is there by now depends on this machine.
        work.on_fence = lambda _: None
        queue.worker.submit(lambda: self._execute("recv", peer, message, queue, work, sequence, run), done)
        return work

    # -- inside --------------------------------------------------------------------------------------------

    def _enter(self, kind: str, peer: int, message: Message) -> tuple[_Queue, HcclWork, int, threading.Event]:
        direction = "to" if kind == "send" else "from"
        rank = self._communicator.ranks[peer]
        self._communicator.check_usable(lambda: f"{kind} {direction} rank {rank}")
        with self._lock:
            queue = self._queues.get((kind, peer))
            if queue is None:
                queue = self._queues[kind, peer] = _Queue(
                    f"hccl-{self._communicator.label}-{kind}-{rank}", self._communicator.channel_line(kind, peer)
                )
            queue.sequence += 1
            sequence = queue.sequence
        shape = list(message.tensor.shape)
        dtype = str(message.tensor.dtype).removeprefix("torch.")
        label = self._communicator.label

        def describe() -> str:
            return f"{kind} (#{sequence}) {direction} rank {rank} of {dtype}{shape} in process group {label}"

        if message.is_on_card:
            message.arrival = queue.ledger.arrive(sequence, kind, fabric.SEND_RECV, message.nbytes, message.extents)
        else:
            queue.ledger.stay_away(kind)
        work = HcclWork(describe, [message.tensor], queue.ledger, sequence)
        return queue, work, sequence, work.becomes_asynchronous()

    def _namer(self, own_side: int, peer: int) -> Callable[[int], str]:
        ranks = self._communicator.ranks
        own = self._communicator.rank
        return lambda side: f"rank {ranks[own if side == own_side else peer]}"

    def _execute(
        self,
        kind: str,
        peer: int,
        message: Message,
        queue: _Queue,
        work: HcclWork,
        sequence: int,
        run: Callable[[Call, Guard], Arrival],
    ) -> None:
        communicator = self._communicator
        signature = header.Signature(
            kind,
            dtype=message.tensor.dtype,
            root=communicator.ranks[peer],
            shapes=(tuple(message.tensor.shape),),
        )
        guard = Guard(communicator.membership, work.describe, communicator.timeout_s)
        error: BaseException | None = None
        try:
            communicator.check_usable(work.describe)
            other = run(Call(sequence, signature, message.arrival, message.tag), guard)
            for finish in message.finish:
                finish()
            self._account(kind, peer, message, queue, sequence, other)
        except MismatchError as mismatch:
            error = mismatch
            queue.ledger.fail(sequence, kind)
        except CollectiveTimeout:
            rank, wanted = communicator.ranks[peer], "recv" if kind == "send" else "send"
            error = CollectiveTimeout(
                f"{work.describe()} timed out after {guard.timeout_s:g} s: rank {rank} has not called the {wanted} for "
                "it. More time: init_process_group(timeout=...) or HPUCLUSTER_COLLECTIVE_TIMEOUT (seconds)"
            )
            communicator.break_up(error)
        except Exception as failure:
            error = failure
            communicator.break_up(failure)
        work.complete(error)

    def _account(self, kind: str, peer: int, message: Message, queue: _Queue, sequence: int, other: Arrival) -> None:
        is_first = self._communicator.ranks[self._communicator.rank] == queue.line.ranks[0]
        arrivals = [message.arrival, other] if is_first else [other, message.arrival]
        arrivals = arrivals[: len(queue.line.ranks)]  # to itself there is one
        transfer = queue.line.finish(kind, fabric.SEND_RECV, message.nbytes, arrivals, 0 if is_first else 1)
        if transfer is not None and message.is_on_card:
            queue.ledger.enter(sequence, transfer)

    def _close(self, timeout_s: float) -> None:
        for (kind, _), queue in self._queues.items():
            if kind == "send" and queue.worker.drain(min(timeout_s, _SEND_DRAIN_S)) and timeout_s > 0:
                queue.ledger.settle(queue.sequence, HOST)
            queue.ledger.close()
            queue.worker.stop()
