"""A run's log, played on a card's timeline: what the same run would have taken on another card.

Programs are placed on the card again, compilations take what its compiler would, and the host and the copies what
its description says. Left out: that the script might have done something else (another batch), what another card
would keep in its SRAM when it comes to the peak of memory, and recipes that came from a disk cache, which come from one
again.

A collective needs the other ranks: `run` stops there, and goes on with the moment at which it ends.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from .compiler.compile import place
from .compiler.program import Program
from .compiler.recipe import Recipe
from .compiler.recipe_document import DocumentError, programs_of
from .description import parse_table
from .errors import ConfigurationError
from .journal import Journal
from .network import Transfer
from .run_log import FORMAT
from .shares import time_shares
from .spec import CardSpec
from .timeline import COMPUTE, HOST, INSIDE, NOBODY, STREAM, Timeline

# What the calls in a log take. "end_step" and "end_mark" are the log's own; "arrive" begins what a "collective" ends,
# or "failed"; "missed" stands for those that this card had no part in.
_ARGUMENTS: dict[str, tuple[type, ...]] = {
    "record": (int,),
    "user": (float,),
    "reducer": (int,),
    "hand_over": (),
    "compile": (str,),
    "launch": (str, int, tuple),
    "eager": (str, int, tuple),
    "replay": (tuple, int, tuple),
    "copy": (str, int, bool, bool, tuple),
    "join": (),
    "wait": (),
    "wait_stream": (int,),
    "poll": (),
    "mark": (int,),
    "stream_after": (int, int),
    "host_after": (int,),
    "fallback": (int, int),
    "defragment": (int,),
    "arrive": (str, int, str, tuple, int, tuple),
    "arrive_inside": (str, int, str, tuple),
    "collective": (str, int, str, tuple, int, str),
    "failed": (str, str, tuple),
    "missed": (str, int, str, tuple),
    "end_step": (),
    "end_mark": (),
}


ABSENT = -1.0
"""Moment at which a card is ready for what it has no part in."""

LARGEST = 2**63
"""No count, size or time of a run comes near it."""


class LogError(ValueError):
    """A log cannot be replayed: damaged, or of another version. The message names the place."""


@dataclass(frozen=True)
class Record:
    """A run's log, read and checked."""

    card: CardSpec
    launch_thread: bool
    truncated: bool
    programs: dict[str, Program]
    eager: frozenset[str]
    segments: list[list[tuple[Any, ...]]]
    sequence: list[tuple[int, int]]


@dataclass(frozen=True)
class Meeting:
    """This card's part of a collective of `ranks` in a process group, and when its data was ready.

    Told twice: at its beginning, which takes no time, and where the card accounts its end (`is_end`), if there was one
    (`has_failed`). Where the card had no part in it, it is told once, with a negative moment.
    """

    operation: str
    nbytes: int
    group: str
    ranks: tuple[int, ...]
    moment: float
    is_end: bool = False
    has_failed: bool = False

    @property
    def line(self) -> tuple[str, str, tuple[int, ...]]:
        """What ends in the order in which it began: a group's collectives, messages sent to a rank or received."""
        return self.operation if is_message(self.operation) else "collective", self.group, self.ranks


def read_record(document: Any) -> Record:
    """The record in a log's document.

    Raises:
        LogError: it is no such document, or damaged; the place is named.
    """
    if not isinstance(document, dict):
        raise LogError(f"expected an object, got {document!r:.60}")
    if document.get("format") != FORMAT:
        raise LogError(f"format: expected {FORMAT}, got {document.get('format')!r}")
    try:
        card: CardSpec = parse_table(CardSpec, document["card"], "card")
        programs = programs_of(document["recipes"])
        calls = [_call(plain, f"calls[{number}]") for number, plain in enumerate(document["calls"])]
        if any(number < 0 for numbers in document["segments"] for number in numbers):
            raise LogError("segments: names a call that is not there")
        segments = [[calls[number] for number in numbers] for numbers in document["segments"]]
        sequence = [(int(number), int(count)) for number, count in document["sequence"]]
        if any(not 0 <= number < len(segments) or count < 0 for number, count in sequence):
            raise LogError("sequence: names a segment that is not there")
        return Record(
            card,
            bool(document["launch_thread"]),
            bool(document["truncated"]),
            programs,
            frozenset(document["eager"]),
            segments,
            sequence,
        )
    except KeyError as error:
        raise LogError(f"{error.args[0]}: missing") from error
    except (ConfigurationError, DocumentError) as error:
        raise LogError(str(error)) from error
    except (TypeError, IndexError, AttributeError) as error:
        raise LogError(f"calls, segments or sequence: {error}") from error


def _call(plain: Any, where: str) -> tuple[Any, ...]:
    parts = plain if isinstance(plain, list) and plain and isinstance(plain[0], str) else [""]
    name, values = parts[0], tuple(tuple(value) if isinstance(value, list) else value for value in parts[1:])
    kinds = _ARGUMENTS.get(name)
    if kinds is None or not _fit(values, kinds) or not _is_possible(name, values):
        raise LogError(f"{where}: {plain!r:.60} is no call of a timeline")
    return (name, *values)


def _fit(values: tuple[Any, ...], kinds: tuple[type, ...]) -> bool:
    return len(values) == len(kinds) and all(
        type(value) is kind or (kind is float and type(value) is int) for value, kind in zip(values, kinds, strict=True)
    )


def _is_possible(name: str, values: tuple[Any, ...]) -> bool:
    """Whether figures are such as a run has: finite and not negative, but for marks, which count backwards."""
    if name == "copy" and values[0] not in ("h2d", "d2h"):
        return False
    if name == "collective" and values[-1] not in (STREAM, HOST, NOBODY, INSIDE):
        return False
    back = -1 if name in ("stream_after", "host_after") else None
    inside = [item for value in values if isinstance(value, tuple) for item in value]
    if any(isinstance(value, (int, float)) and not 0 <= value < LARGEST for value in (*values[:back], *inside)):
        return False
    return back is None or -LARGEST < values[back] <= 0


class CardReplay:
    """A record on a card. `run()` to the end, then `figures()` and `recipes`."""

    def __init__(self, record: Record, spec: CardSpec) -> None:
        self.record = record
        self.spec = spec
        self.timeline = Timeline(spec, record.launch_thread)
        self.journal = Journal()
        self.recipes: dict[str, Recipe] = {}
        self.launches: Counter[str] = Counter()
        self._open: dict[tuple[str, str, tuple[int, ...]], list[float]] = defaultdict(list)

    def run(self) -> Generator[Meeting, Transfer | None, None]:
        """Play the record; yields each collective's beginning (send None) and its end (send the `Transfer`, or None if
        it has failed).
        """
        for number, count in self.record.sequence:
            segment = self.record.segments[number]
            for _ in range(count):
                for call in segment:
                    name = call[0]
                    if name == "arrive":
                        yield self._arrive(*call[1:])
                    elif name == "arrive_inside":
                        yield self._arrive_inside(*call[1:])
                    elif name == "collective":
                        yield from self._collective(*call[1:])
                    elif name == "failed":
                        yield self._failed(*call[1:])
                    elif name == "missed":
                        operation, missed, group, ranks = call[1:]
                        for _ in range(missed):
                            yield Meeting(operation, 0, group, ranks, ABSENT)
                    else:
                        self._play(name, call[1:])

    def _play(self, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "compile":
            recipe = self._recipe(arguments[0])
            is_eager = arguments[0] in self.record.eager
            self.timeline.compile(recipe.name, self.spec.compile.eager_s if is_eager else recipe.compile_seconds)
        elif name == "end_step":
            self.journal.end_step(self.timeline.now)
        elif name == "end_mark":
            self.journal.mark(self.timeline.now)
        else:
            if name in ("launch", "eager", "replay"):
                for launched in arguments[0] if name == "replay" else arguments[:1]:
                    self.launches[self._recipe(launched).name] += 1
            getattr(self.timeline, name)(*arguments)

    def _recipe(self, name: str) -> Recipe:
        recipe = self.recipes.get(name)
        if recipe is None:
            program = self.record.programs.get(name)
            if program is None:
                raise LogError(f"recipes: {name} is launched, and there is no program of it")
            recipe = self.recipes[name] = place(program, self.spec, name, "")
            self.timeline.learn(
                name, recipe.seconds, recipe.engine_seconds, recipe.hbm_bytes(self.spec), recipe.collectives
            )
        return recipe

    def _arrive(
        self, operation: str, nbytes: int, group: str, ranks: tuple[int, ...], stream: int, after: tuple[int, ...]
    ) -> Meeting:
        moment = self.timeline.arrive(operation, nbytes, group, ranks, stream, after)
        meeting = Meeting(operation, nbytes, group, ranks, moment)
        self._open[meeting.line].append(meeting.moment)
        return meeting

    def _arrive_inside(self, operation: str, nbytes: int, group: str, ranks: tuple[int, ...]) -> Meeting:
        moment = self.timeline.arrive_inside(operation, nbytes, group, ranks)
        meeting = Meeting(operation, nbytes, group, ranks, moment)
        self._open[meeting.line].append(moment)
        return meeting

    def _collective(
        self, operation: str, nbytes: int, group: str, ranks: tuple[int, ...], stream: int, waits: str
    ) -> Generator[Meeting, Transfer | None, None]:
        ends = Meeting(operation, nbytes, group, ranks, self.timeline.now, is_end=True)
        arrivals = self._open[ends.line]
        if not arrivals:
            yield self._arrive(operation, nbytes, group, ranks, stream, ())
        transfer = yield replace(ends, moment=arrivals.pop(0))
        assert transfer is not None
        self.journal.communication.add(transfer, self.timeline.collective(transfer, stream, waits))

    def _failed(self, operation: str, group: str, ranks: tuple[int, ...]) -> Meeting:
        meeting = Meeting(operation, 0, group, ranks, self.timeline.now, has_failed=True)
        if not self._open[meeting.line]:
            raise LogError(f"calls: {operation} of group {group} fails before it begins")
        self._open[meeting.line].pop(0)
        return meeting

    def figures(self) -> dict[str, Any]:
        """What a card's report says of time, in modelled seconds, and how many steps there were."""
        timeline, journal = self.timeline, self.journal
        shares = time_shares(
            timeline.now, timeline.compiling, journal.communication.total.exposed, timeline.busy[COMPUTE]
        )
        return {
            "card": self.spec.name,
            "steps": journal.steps,
            "time": {**shares, "step": journal.step_seconds()},
            "device_seconds": timeline.busy[COMPUTE],
            "compile_seconds": timeline.compiling,
            "collectives": journal.communication.to_plain(),
        }


def is_message(operation: str) -> bool:
    """Whether it is one of point to point; then `ranks` are both sides, in order."""
    return operation in ("send", "recv")
