"""A report's run, played again on another kind of card: all ranks together, since collectives join them.

A collective starts when the last of its ranks arrives (and the one before it is over) and takes what the RoCE model
says for boxes of the new card. A rank without a log is taken to arrive in time. Where a rank never arrives,
because its log was cut short, the others go on without it, and that is counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collectives.arrival import Arrival
from collectives.job_network import JobNetwork
from collectives.roce import fabric
from collectives.roce.network import Network
from collectives.timing import Line, SharedPorts
from device.errors import ConfigurationError
from device.network import Transfer
from device.replay import CardReplay, LogError, Meeting, Record, is_message
from device.spec import CardSpec

from .report import FORMAT as REPORT_FORMAT
from .run_logs import ReplayError, records_of

TOP_NODES = 10


# -- all ranks together --------------------------------------------------------------------------------------------


@dataclass
class _Line:
    """A group of ranks, or a sender and a receiver: what happens there happens one after the other."""

    line: Line
    arrivals: dict[int, list[Arrival]] = field(default_factory=lambda: defaultdict(list))  # by rank
    transfers: list[Transfer | None] = field(default_factory=list)  # as the first of its ranks sees them
    failed: set[int] = field(default_factory=set)  # their numbers
    finished: dict[int, int] = field(default_factory=lambda: defaultdict(int))


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
                self._settle(self._line(first, waiting[first]), waiting[first])
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
        arrivals = line.arrivals[rank]
        if meeting.has_failed:
            number = self._next(line, rank)
            line.failed.add(number)
            line.finished[rank] = number + 1
            self._ports[rank].settle(self._end(rank, meeting), number)
        elif meeting.moment < 0:
            arrivals.append(Arrival())
        else:
            pattern, number, end = pattern_of(meeting.operation), len(arrivals), self._end(rank, meeting)
            arrivals.append(self._ports[rank].issue(end, number, pattern, meeting.nbytes, meeting.moment))

    @staticmethod
    def _next(line: _Line, rank: int) -> int:
        """Number of the line's next collective that ends for a rank: one in which its card takes part."""
        number, arrivals = line.finished[rank], line.arrivals[rank]
        while number < len(arrivals) and arrivals[number].moment < 0:
            number += 1
        return number

    def _finish(self, waiting: dict[int, Meeting]) -> dict[int, Transfer | None]:
        """The ranks whose collective is over, taken out of `waiting`, with it."""
        ready: dict[int, Transfer | None] = {}
        for rank, meeting in list(waiting.items()):
            line = self._line(rank, meeting)
            number = self._next(line, rank)
            while len(line.transfers) <= number and self._is_complete(line, meeting.ranks):
                self._settle(line, meeting)
            if len(line.transfers) > number:
                seen = line.transfers[number]
                if seen is None:
                    raise LogError(f"calls: {meeting.operation} of group {meeting.group} ends, and none has begun")
                line.finished[rank] = number + 1
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

    def _is_complete(self, line: _Line, ranks: Sequence[int]) -> bool:
        return all(len(line.arrivals[rank]) > len(line.transfers) for rank in ranks if rank in self.cards)

    def _settle(self, line: _Line, meeting: Meeting) -> None:
        """The line's next collective, for whose end `meeting` waits, ends with those that have arrived."""
        number = len(line.transfers)
        if number in line.failed:
            line.transfers.append(None)
            return
        absent = Arrival()
        arrivals = [
            line.arrivals[rank][number] if len(line.arrivals[rank]) > number else absent for rank in meeting.ranks
        ]
        first = max(range(len(arrivals)), key=lambda place: arrivals[place] != absent)
        transfer = line.line.finish(meeting.operation, pattern_of(meeting.operation), meeting.nbytes, arrivals, first)
        last = meeting.ranks[max(range(len(arrivals)), key=lambda place: arrivals[place].moment)]
        line.transfers.append(None if transfer is None else transfer._replace(last=last))


def pattern_of(operation: str) -> str:
    """The fabric's pattern of an operation as the process group names it: `all_gather_into_tensor` is an all_gather."""
    if is_message(operation):
        return fabric.SEND_RECV
    fitting = [pattern for pattern in fabric.PATTERNS if operation.startswith(pattern)]
    if not fitting:
        raise ReplayError(f"its log has a collective {operation!r} that the fabric model does not know")
    return max(fitting, key=len)


# -- the comparison ------------------------------------------------------------------------------------------------


def compare(report: Any, spec: CardSpec | None = None, another_network: bool = False) -> dict[str, Any]:
    """A report's run as it was and on another card, or in another network, side by side, as plain data.

    `spec`: the other card (None: the same). `another_network`: the other network is the one that the environment
    describes; else boxes of the other card are joined as those of the run were.

    Returns: "recorded" and "replayed": per rank the figures of `CardReplay.figures`, with steps per second and peak
    of memory against the limit; "ratios" per rank, recorded by replayed, so that above 1 the other card is faster;
    "nodes": the engine nodes that take most time on the recorded card, over all ranks; "unmatched", "truncated".

    Raises:
        ReplayError: the report cannot be replayed.
        ConfigurationError: the box of the other card is not described, or too small for the job.
    """
    records = records_of(report, REPORT_FORMAT)
    origin = next(iter(records.values())).card
    network, modules = network_of(report, origin)
    sides = []
    other = origin if spec is None else spec
    for card, joined in (
        (origin, network),
        (other, Network.of_environment(other, len(modules)) if another_network else network.on(other)),
    ):
        try:
            joint = JointReplay(records, card, joined, modules)
            joint.run()
        except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as error:  # LogError among them
            if isinstance(error, (ConfigurationError, ReplayError)):
                raise
            raise ReplayError(f"its log cannot be played: {type(error).__name__}: {error}") from error
        sides.append(joint)
    try:
        peaks = {card["rank"]: int(card["memory"]["peak"]) for card in report["cards"]}
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ReplayError(f"a card's record has no peak of memory: {error}") from error
    recorded, replayed = ([_side(joint, rank, peaks[rank]) for rank in records] for joint in sides)
    return {
        "format": REPORT_FORMAT,
        "units": "modelled seconds, bytes; ratios: recorded by replayed",
        "run": report.get("run", {}),
        "cards": [origin.name, other.name],
        "recorded": recorded,
        "replayed": replayed,
        "ratios": [_ratios(before, after) for before, after in zip(recorded, replayed, strict=True)],
        "nodes": top_nodes(list(sides[0].cards.values()), list(sides[1].cards.values())),
        "unmatched": max(joint.unmatched for joint in sides),
        "truncated": any(record.truncated for record in records.values()),
    }


def network_of(report: Any, card: CardSpec) -> tuple[Network, dict[int, int | None]]:
    """The network on which a report's run took place, and the modules of its ranks.

    Raises:
        ReplayError: the report's description is damaged.
        ConfigurationError: its box or fabric cannot be used.
    """
    try:
        modules = {entry["rank"]: entry["module"] for entry in report["cards"]}
        plain = report["run"]["network"]
        return Network.of_environment(card, len(modules)) if plain is None else Network.from_plain(plain), modules
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ReplayError(f"its network is damaged: {type(error).__name__}: {error}") from error


def _side(joint: JointReplay, rank: int, peak: int) -> dict[str, Any]:
    card = joint.cards[rank]
    figures = card.figures()
    step, limit = figures["time"]["step"], card.spec.hbm.pool_bytes
    return {
        "rank": rank,
        **figures,
        "steps_per_second": 1.0 / step if step > 0 else 0.0,
        "memory": {"peak": peak, "limit": limit, "fits": peak <= limit},
    }


def _ratios(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, float | None]:
    def ratio(one: float, other: float) -> float | None:
        return one / other if other > 0 else None

    return {
        "total": ratio(before["time"]["total"], after["time"]["total"]),
        "step": ratio(before["time"]["step"], after["time"]["step"]),
        "device": ratio(before["device_seconds"], after["device_seconds"]),
        "compile": ratio(before["compile_seconds"], after["compile_seconds"]),
        "collectives": ratio(before["collectives"]["seconds"], after["collectives"]["seconds"]),
    }


def top_nodes(
    before: Sequence[CardReplay], after: Sequence[CardReplay], count: int = TOP_NODES
) -> list[dict[str, Any]]:
    """Engine nodes of one kernel and source line together, the longest on the recorded cards first.

    `bound`: what limits the longest of them on the recorded and on the other card.
    """
    sides = [_nodes(cards) for cards in (before, after)]
    longest = sorted(sides[0], key=lambda key: (-sides[0][key].seconds, key))[:count]
    return [
        {
            "kernel": key[0],
            "engine": key[1],
            "where": key[2],
            "seconds": [side[key].seconds for side in sides],
            "bound": [side[key].bound for side in sides],
        }
        for key in longest
    ]


@dataclass
class _Share:
    seconds: float = 0.0
    longest: float = -1.0
    bound: str = ""


def _nodes(cards: Sequence[CardReplay]) -> dict[tuple[str, str, str], _Share]:
    shares: dict[tuple[str, str, str], _Share] = defaultdict(_Share)
    for card in cards:
        for name, recipe in card.recipes.items():
            for entry in recipe.nodes:
                share = shares[entry.node.kernel, entry.node.engine.value, entry.node.where]
                seconds = entry.seconds * card.launches[name]
                share.seconds += seconds
                if seconds > share.longest:
                    share.longest, share.bound = seconds, entry.bound
    return shares
