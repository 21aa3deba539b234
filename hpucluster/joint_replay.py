"""Records of all ranks, played together, since collectives join them.

A collective starts when the last of its ranks arrives (and the one before it is over) and takes what the RoCE model
says for boxes of the card. A rank without a log is taken to arrive in time. Where a rank never arrives, because its log
was cut short, the others go on without it, and that is counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Generator, Hashable, Mapping
from dataclasses import dataclass, field

from collectives.arrival import Arrival
from collectives.job_network import JobNetwork
from collectives.roce import fabric
from collectives.roce.network import Network
from collectives.timing import Line, SharedPorts
from device.network import Transfer
from device.replay import CardReplay, LogError, Meeting, Record, is_message
from device.spec import CardSpec

from .run_logs import ReplayError


@dataclass
class _Line:
    """A group of ranks, or a sender and a receiver: what happens there happens one after the other, by number.

    What is over for all is forgotten, so that memory does not grow with the run.
    """

    line: Line
    begun: Counter[int] = field(default_factory=Counter)  # by rank, those without its card included
    pending: dict[int, deque[int]] = field(default_factory=lambda: defaultdict(deque))  # by rank: begun and not over
    arrivals: dict[int, dict[int, Arrival]] = field(default_factory=lambda: defaultdict(dict))  # by number and rank
    kinds: dict[int, tuple[str, int]] = field(default_factory=dict)  # operation and bytes
    failed: set[int] = field(default_factory=set)
    settled: int = 0
    transfers: dict[int, Transfer | None] = field(default_factory=dict)  # as the first of its ranks sees them
    takers: dict[int, int] = field(default_factory=dict)  # cards that have still to see it

    def begin(self, rank: int, arrival: Arrival) -> None:
        """A rank's next one; its card has no part in it where the arrival's moment is negative."""
        number = self.begun[rank]
        self.begun[rank] += 1
        if arrival.moment >= 0:
            self.pending[rank].append(number)
        if number >= self.settled:
            self.arrivals[number][rank] = arrival
        elif arrival.moment < 0:
            self._seen(number)

    def fail(self, rank: int) -> int:
        """The rank's oldest has failed, for all. Its number."""
        number = self.pending[rank].popleft()
        if number < self.settled:
            self._seen(number)
        else:
            self.failed.add(number)
            self.arrivals[number][rank] = Arrival()
        return number

    def take(self, rank: int) -> Transfer:
        """The rank's oldest, which is settled, is over for it."""
        number = self.pending[rank].popleft()
        transfer = self.transfers[number]
        if transfer is None:
            raise LogError(f"calls: a collective of group {self.line.label} ends that has failed elsewhere")
        self._seen(number)
        return transfer

    def _seen(self, number: int) -> None:
        self.takers[number] -= 1
        if not self.takers[number]:
            del self.takers[number], self.transfers[number]


class JointReplay:
    """Records by rank, on cards of one kind in a network; `modules` by rank."""

    def __init__(
        self, records: Mapping[int, Record], spec: CardSpec, network: Network, modules: Mapping[int, int | None]
    ) -> None:
        self.cards = {rank: CardReplay(record, spec) for rank, record in records.items()}
        self.unmatched = 0
        self._job = JobNetwork(network, modules)
        self._lines: dict[Hashable, _Line] = {}
        self._ends: dict[tuple[int, Hashable], Line] = {}  # each rank's end of a line
        self._ports = {rank: SharedPorts() for rank in records}

    def run(self) -> None:
        """Play all records to their ends.

        Raises:
            ConfigurationError: the network has no place for a rank.
        """
        waiting: dict[int, Meeting] = {}
        runs = {rank: card.run() for rank, card in self.cards.items()}
        ready: dict[int, Transfer | None] = dict.fromkeys(runs)
        while ready or waiting:
            while ready:
                rank, transfer = ready.popitem()
                meeting = self._advance(rank, runs[rank], transfer)
                if meeting is not None:
                    waiting[rank] = meeting
            ready = self._finish(waiting)
            if waiting and not ready:
                # Somebody will never come. The one that has waited longest goes on.
                first = min(waiting, key=lambda rank: (waiting[rank].moment, rank))
                self.unmatched += 1
                self._settle(self._line(first, waiting[first]))
                ready = self._finish(waiting)

    def _advance(
        self, rank: int, run: Generator[Meeting, Transfer | None, None], transfer: Transfer | None
    ) -> Meeting | None:
        """Play one rank until it waits for the end of a collective; None where its record ends."""
        try:
            meeting = run.send(transfer)
            while not meeting.is_end:
                self._begin(rank, meeting)
                meeting = next(run)
            return meeting
        except StopIteration:
            return None

    def _begin(self, rank: int, meeting: Meeting) -> None:
        """A rank is ready for a collective, has no part in it, or learns that it has failed."""
        line = self._line(rank, meeting)
        if meeting.has_failed:
            self._ports[rank].settle(self._end(rank, meeting), line.fail(rank))
            return
        arrival = Arrival()
        if meeting.moment >= 0:
            pattern, number = pattern_of(meeting.operation), line.begun[rank]
            line.kinds.setdefault(number, (meeting.operation, meeting.nbytes))
            arrival = self._ports[rank].issue(self._end(rank, meeting), number, pattern, meeting.nbytes, meeting.moment)
        line.begin(rank, arrival)

    def _finish(self, waiting: dict[int, Meeting]) -> dict[int, Transfer | None]:
        """The ranks whose collective is over, taken out of `waiting`, with it."""
        for rank, meeting in waiting.items():
            line = self._line(rank, meeting)
            number = line.pending[rank][0]
            if number >= line.settled:  # now the ranks have agreed on its size
                line.kinds[number] = (meeting.operation, meeting.nbytes)
        ready: dict[int, Transfer | None] = {}
        for rank, meeting in list(waiting.items()):
            line = self._line(rank, meeting)
            number = line.pending[rank][0]
            while line.settled <= number and self._is_complete(line):
                self._settle(line)
            if line.settled > number:
                seen = line.take(rank)
                self._ports[rank].settle(self._end(rank, meeting), number)
                del waiting[rank]
                met, begin = seen.met, min(meeting.moment, seen.met)
                last = seen.last if met > begin else None
                ready[rank] = seen._replace(operation=meeting.operation, begin=begin, last=last)
        return ready

    def _line(self, rank: int, meeting: Meeting) -> _Line:
        key = self._key(rank, meeting)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(self._job.line(meeting.group, meeting.ranks, meeting.ranks[0]))
        return line

    def _key(self, rank: int, meeting: Meeting) -> Hashable:
        if not is_message(meeting.operation):
            return ("group", meeting.group, meeting.ranks)
        is_sender = meeting.operation == "send"
        sides = sorted(meeting.ranks, key=lambda other: (other == rank) != is_sender)
        return ("channel", meeting.group, tuple(sides))

    def _end(self, rank: int, meeting: Meeting) -> Line:
        """A line as one of its ranks sees it: which of its own ports it uses."""
        key = (rank, meeting.line)
        end = self._ends.get(key)
        if end is None:
            ways = {"send": ("out",), "recv": ("in",)}.get(meeting.operation, ("out", "in"))
            end = self._ends[key] = self._job.line(meeting.group, meeting.ranks, rank, ways)
        return end

    def _is_complete(self, line: _Line) -> bool:
        return all(line.begun[rank] > line.settled for rank in line.line.ranks if rank in self.cards)

    def _settle(self, line: _Line) -> None:
        """The line's next collective ends with those that have arrived."""
        number, ranks = line.settled, line.line.ranks
        line.settled += 1
        absent = Arrival()
        known, kind = line.arrivals.pop(number, {}), line.kinds.pop(number, None)
        arrivals = [known.get(rank, absent) for rank in ranks]
        transfer = None
        if kind is not None and number not in line.failed:
            operation, nbytes = kind
            first = max(range(len(arrivals)), key=lambda place: arrivals[place] != absent)
            transfer = line.line.finish(operation, pattern_of(operation), nbytes, arrivals, first)
        line.failed.discard(number)
        if transfer is not None:
            last = ranks[max(range(len(arrivals)), key=lambda place: arrivals[place].moment)]
            transfer = transfer._replace(last=last)
        # Who has not arrived may still do so, later than the others could wait.
        takers = sum(rank in self.cards and known.get(rank) != absent for rank in ranks)
        if takers:
            line.transfers[number], line.takers[number] = transfer, takers


def pattern_of(operation: str) -> str:
    """The fabric's pattern of an operation as the process group names it: `all_gather_into_tensor` is an all_gather."""
    if is_message(operation):
        return fabric.SEND_RECV
    fitting = [pattern for pattern in fabric.PATTERNS if operation.startswith(pattern)]
    if not fitting:
        raise ReplayError(f"its log has a collective {operation!r} that the fabric model does not know")
    return max(fitting, key=len)
