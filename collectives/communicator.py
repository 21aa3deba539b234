"""The members of one group and the operations between them, in the order in which they are issued."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence

import torch.distributed as dist

from device import interop
from device.errors import ConfigurationError
from device.timeline import HOST, INSIDE

from .arrival import Arrival
from .data_movement import moves_data
from .errors import CollectiveError, MismatchError, collective_error
from .guard import Guard
from .job_network import job_network
from .ledger import Ledger
from .operation import Operation
from .spanning.spanning_transport import SpanningTransport
from .timing import Line
from .transport.control import control_plane
from .transport.rendezvous import meet
from .transport.shared_transport import LocalTransport, SharedTransport
from .work import DONE, HcclWork
from .worker import Worker

_EXIT_DRAIN_S = 10.0
_live: weakref.WeakSet[Communicator] = weakref.WeakSet()


def environment_timeout() -> float | None:
    """HPUCLUSTER_COLLECTIVE_TIMEOUT in seconds; None if unset.

    Raises:
        ConfigurationError: not a positive number.
    """
    text = os.environ.get("HPUCLUSTER_COLLECTIVE_TIMEOUT", "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        raise ConfigurationError(f"HPUCLUSTER_COLLECTIVE_TIMEOUT={text!r} is not a number of seconds; for example 300")
    return seconds


class Communicator:
    """This rank's end of a group.

    `ranks` are the group's members as the whole job counts them, `rank` is this one's place among them.

    Raises:
        CollectiveError: the ranks cannot meet (see `meet`), or there is no shared memory for them.
        ConfigurationError: an environment variable or a box file cannot be used, or the box has too few
        cards.
    """

    def __init__(self, store: dist.Store, rank: int, ranks: Sequence[int], label: str, timeout_s: float) -> None:
        self.rank = rank
        self.ranks = list(ranks)
        self.label = label
        self.timeout_s = environment_timeout() or timeout_s
        self.membership = meet(store, label, rank, self.ranks, self.timeout_s)
        self._job = job_network(self.membership)
        self.line = self._job.line(label, self.ranks, self.ranks[rank])
        self.transport: SharedTransport | SpanningTransport | LocalTransport
        if len(self.ranks) == 1:
            self.transport = LocalTransport()
        else:
            what = f"process group {label}"
            try:
                guard = Guard(self.membership, lambda: what, self.timeout_s)
                kind = SharedTransport if self.membership.is_on_one_machine else SpanningTransport
                self.transport = kind(self.membership, label, guard)
            except BaseException as error:
                self.membership.announce("failed", str(error))
                raise
        self.ledger = Ledger(self.line)
        self.worker = Worker(f"hccl-{label}")
        self._sequence = 0
        self.recorded = 0  # collectives in the graph that the card has not run yet
        self._issue = threading.RLock()  # again: what the worker runs may issue the next operation
        self._broken: str | None = None
        self._closers: list[Callable[[float], None]] = []
        control_plane().at_end(_close_all)
        _live.add(self)

    def channel_line(self, kind: str, peer: int) -> Line:
        """The line of messages to (`send`) or from (`recv`) a rank of the group."""
        own, other = self.ranks[self.rank], self.ranks[peer]
        return self._job.line(self.label, sorted({own, other}), own, ("out",) if kind == "send" else ("in",))

    @property
    def size(self) -> int:
        return len(self.ranks)

    @property
    def sequence(self) -> int:
        """Number of collectives issued so far."""
        return self._sequence

    # -- issuing -------------------------------------------------------------------------------------------

    def run_recorded(self) -> None:
        """Have the card run the graph if it holds collectives of this group: those come first. Where a graph ends by
        itself may differ between ranks, the order of a group's collectives must not.
        """
        if self.recorded:
            interop.run_recorded()

    def issue(self, operation: Operation, wait: bool) -> dist.Work:
        """Start an operation after all earlier ones of the group; with `wait`, return when it is over.

        Raises:
            CollectiveError: with `wait`, the operation failed; or the group is of no use any more.
        """
        self.check_usable(operation.describe)
        if operation.waits == INSIDE:
            self.recorded = max(0, self.recorded - 1)
        else:
            self.run_recorded()
        with self._issue:
            self._sequence += 1
            sequence = self._sequence
            self._arrive(operation, sequence)
            if wait and self.worker.is_idle():
                # Nothing is under way, so the caller's own thread does it: no hand-over to the worker and back.
                self._run_now(operation, sequence)
                return DONE
            work = HcclWork(lambda: self._name(operation, sequence), operation.outputs, self.ledger, sequence)
            work.waits = operation.waits
            work.has_inline_callbacks = True
            done = work.becomes_asynchronous()
            self.worker.submit(lambda: self._execute(operation, sequence, work), done)
        if wait:
            work.wait()
        return work

    def _arrive(self, operation: Operation, sequence: int) -> None:
        staging = operation.staging
        if not operation.parts:
            return
        name, pattern, nbytes = operation.name, operation.pattern, operation.nbytes
        if operation.waits == INSIDE:
            staging.is_on_card = True  # in the memory that a recipe works on
            operation.arrival = self.ledger.arrive_inside(sequence, name, pattern, nbytes)
        elif staging.is_on_card:
            operation.arrival = self.ledger.arrive(sequence, name, pattern, nbytes, staging.extents)
        else:
            self.ledger.stay_away(name)
            for part in operation.parts:
                part.exchange.moves_data = moves_data(is_on_card=False)

    def check_usable(self, what: Callable[[], str]) -> None:
        """Raise if nothing can be issued any more; `what` names the attempt."""
        if self.membership.is_forked:
            raise CollectiveError(
                f"{what()}: process group {self.label} belongs to the parent of this forked process; "
                "create a group in the child"
            )
        if self._broken is not None:
            raise CollectiveError(f"{what()}: process group {self.label} cannot be used any more: {self._broken}")

    def break_up(self, error: BaseException) -> None:
        """The group is of no use after this error; the other ranks are told."""
        reason = str(collective_error(error))
        if self._broken is None:
            self._broken = reason
        self.membership.announce("failed", f"rank {self.ranks[self.rank]} has given up: {reason}")

    def _name(self, operation: Operation, sequence: int) -> str:
        return f"{operation.describe()} (#{sequence}) in process group {self.label}"

    def _run_now(self, operation: Operation, sequence: int) -> None:
        try:
            self._attempt(operation, sequence)
        except MismatchError:
            self.ledger.settle(sequence, operation.waits)
            raise
        except CollectiveError:
            raise
        except Exception as failure:
            raise collective_error(failure) from failure
        self.ledger.settle(sequence, operation.waits)

    def _execute(self, operation: Operation, sequence: int, work: HcclWork) -> None:
        error: BaseException | None = None
        try:
            self.check_usable(operation.describe)
            self._attempt(operation, sequence)
        except Exception as failure:
            error = failure
        except BaseException as failure:
            work.complete(failure)
            raise
        work.complete(error)

    def _attempt(self, operation: Operation, sequence: int) -> None:
        """Run it. A mismatch is of this operation alone; after any other error the group is of no use."""
        try:
            self._run(operation, sequence)
        except MismatchError:
            self.ledger.fail(sequence, operation.name)
            raise
        except BaseException as failure:
            self.break_up(failure)
            raise

    def _run(self, operation: Operation, sequence: int) -> None:
        guard = Guard(
            self.membership,
            lambda: self._name(operation, sequence),
            operation.timeout_s or self.timeout_s,
            self.transport.last_seen,
        )
        arrivals: list[Arrival] = []
        for part in operation.parts:
            arrivals = self.transport.run(part.signature, sequence, operation.arrival, part.exchange, guard)
        for finish in operation.staging.finish:
            finish()
        if not operation.parts:
            return
        # Every rank computes the same end.
        transfer = self.line.finish(operation.name, operation.pattern, operation.nbytes, arrivals, self.rank)
        if transfer is not None and operation.staging.is_on_card:
            self.ledger.enter(sequence, transfer)

    # -- the end -------------------------------------------------------------------------------------------

    def on_close(self, closer: Callable[[float], None]) -> None:
        """Call `closer(timeout_s)` when the group ends: finish what is under way in that many seconds."""
        self._closers.append(closer)

    def close(self, reason: str, drain_s: float | None = None) -> None:
        """Finish what was issued, tell the others that this rank leaves, and let go of everything."""
        if self not in _live:
            return
        _live.discard(self)
        seconds = self.timeout_s if drain_s is None else drain_s
        if self._broken is None:
            self.worker.drain(seconds)
        for closer in self._closers:
            closer(seconds if self._broken is None else 0.0)
        if self._broken is None:
            self.ledger.settle(self._sequence, HOST)
            self._broken = reason
        self.ledger.close()
        self.worker.stop()
        self.membership.closed_because = reason
        self.membership.announce("left", reason)
        control_plane().leave(self.membership)


def close_all(reason: str, drain_s: float = 0.0) -> None:
    """Leave every group of this process, in at most `drain_s` seconds each. Other ranks that wait are told
    `reason`.
    """
    for communicator in list(_live):
        communicator.close(reason, drain_s)


def _close_all() -> None:
    close_all("its process is ending", _EXIT_DRAIN_S)
