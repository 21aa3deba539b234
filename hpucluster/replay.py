"""A report's run, played again on another kind of card: all ranks together, since collectives join them.

A collective starts when the last of its ranks arrives (and the links of its group are free) and takes what the RoCE
model says for a box of the new card. A rank without a log is taken to arrive in time. Where a rank never arrives,
because its log was cut short, the others go on without it, and that is counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collectives.roce import fabric
from collectives.roce.box import BoxSpec, load_box
from collectives.roce.direct_mesh import DirectMesh
from device.errors import ConfigurationError
from device.replay import CardReplay, End, Meeting, Record, is_message
from device.spec import CardSpec

from .report import FORMAT as REPORT_FORMAT
from .run_logs import ReplayError, records_of

TOP_NODES = 10


# -- all ranks together --------------------------------------------------------------------------------------------


@dataclass
class _Line:
    """A group of ranks, or a sender and a receiver: what happens there happens one after the other."""

    arrivals: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))  # by rank
    ends: list[float] = field(default_factory=list)
    lasts: list[float] = field(default_factory=list)  # arrivals of the last rank
    finished: dict[int, int] = field(default_factory=lambda: defaultdict(int))


class JointReplay:
    """Records by rank, on cards of one kind."""

    def __init__(self, records: Mapping[int, Record], spec: CardSpec, box: BoxSpec) -> None:
        self.cards = {rank: CardReplay(record, spec) for rank, record in records.items()}
        self.unmatched = 0
        self._box = box
        self._meshes: dict[int, DirectMesh] = {}
        self._lines: dict[tuple[str, tuple[int, ...]], _Line] = defaultdict(_Line)

    def run(self) -> None:
        """Play all records to their ends.

        Raises:
            ConfigurationError: a group has more ranks than a box of these cards.
        """
        waiting: dict[int, Meeting] = {}
        runs = {rank: card.run() for rank, card in self.cards.items()}
        ready: dict[int, End | None] = dict.fromkeys(runs)
        while ready or waiting:
            while ready:
                rank, end = ready.popitem()
                meeting = self._advance(rank, runs[rank], end)
                if meeting is not None:
                    waiting[rank] = meeting
            ready = self._finish(waiting)
            if waiting and not ready:
                # Somebody will never come. The one that has waited longest goes on.
                first = min(waiting, key=lambda rank: (waiting[rank].moment, rank))
                self.unmatched += 1
                self._settle(self._line(first, waiting[first]), waiting[first])
                ready = self._finish(waiting)

    def _advance(self, rank: int, run: Generator[Meeting, End | None, None], end: End | None) -> Meeting | None:
        """Play one rank until it waits for the end of a collective; None where its record ends."""
        try:
            meeting = run.send(end)
            while meeting.nbytes is None:
                self._line(rank, meeting).arrivals[rank].append(meeting.moment)
                meeting = next(run)
            return meeting
        except StopIteration:
            return None

    def _finish(self, waiting: dict[int, Meeting]) -> dict[int, End | None]:
        """The ranks whose collective is over, taken out of `waiting`, with its end."""
        ready: dict[int, End | None] = {}
        for rank, meeting in list(waiting.items()):
            line = self._line(rank, meeting)
            number = line.finished[rank]
            while len(line.ends) <= number and self._is_complete(line, meeting.ranks):
                self._settle(line, meeting)
            if len(line.ends) > number:
                line.finished[rank] += 1
                del waiting[rank]
                ready[rank] = End(line.ends[number], max(0.0, line.lasts[number] - meeting.moment))
        return ready

    def _line(self, rank: int, meeting: Meeting) -> _Line:
        if not is_message(meeting.operation):
            return self._lines["group", meeting.ranks]
        is_sender = meeting.operation == "send"
        return self._lines["channel", tuple(sorted(meeting.ranks, key=lambda other: (other == rank) != is_sender))]

    def _is_complete(self, line: _Line, ranks: Sequence[int]) -> bool:
        return all(len(line.arrivals[rank]) > len(line.ends) for rank in ranks if rank in self.cards)

    def _settle(self, line: _Line, meeting: Meeting) -> None:
        """The line's next collective, for whose end `meeting` waits, ends with those that have arrived."""
        number = len(line.ends)
        last = max(arrivals[number] for arrivals in line.arrivals.values() if len(arrivals) > number)
        free = line.ends[-1] if line.ends else 0.0
        seconds = self._seconds(meeting.operation, meeting.nbytes or 0, len(meeting.ranks))
        line.lasts.append(last)
        line.ends.append(max(last, free) + seconds)

    def _seconds(self, operation: str, nbytes: int, cards: int) -> float:
        mesh = self._meshes.get(cards)
        if mesh is None:
            mesh = self._meshes[cards] = DirectMesh(self._box, cards)
        return mesh.seconds(pattern_of(operation), nbytes)


def pattern_of(operation: str) -> str:
    """The fabric's pattern of an operation as the process group names it: `all_gather_into_tensor` is an all_gather."""
    if is_message(operation):
        return fabric.SEND_RECV
    fitting = [pattern for pattern in fabric.PATTERNS if operation.startswith(pattern)]
    if not fitting:
        raise ReplayError(f"its log has a collective {operation!r} that the fabric model does not know")
    return max(fitting, key=len)


# -- the comparison ------------------------------------------------------------------------------------------------


def compare(report: Any, spec: CardSpec) -> dict[str, Any]:
    """A report's run on its own card and on another, side by side, as plain data.

    Returns: "recorded" and "replayed": per rank the figures of `CardReplay.figures`, with steps per second and peak
    of memory against the limit; "ratios" per rank, recorded by replayed, so that above 1 the other card is faster;
    "nodes": the engine nodes that take most time on the recorded card, over all ranks; "unmatched", "truncated".

    Raises:
        ReplayError: the report cannot be replayed.
        ConfigurationError: the box of the other card is not described, or too small for the job.
    """
    records = records_of(report, REPORT_FORMAT)
    origin = next(iter(records.values())).card
    sides = []
    for card in (origin, spec):
        try:
            joint = JointReplay(records, card, load_box(card.box))
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
        "cards": [origin.name, spec.name],
        "recorded": recorded,
        "replayed": replayed,
        "ratios": [_ratios(before, after) for before, after in zip(recorded, replayed, strict=True)],
        "nodes": top_nodes(list(sides[0].cards.values()), list(sides[1].cards.values())),
        "unmatched": max(joint.unmatched for joint in sides),
        "truncated": any(record.truncated for record in records.values()),
    }


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
