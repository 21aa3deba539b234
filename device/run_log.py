"""What a card's timeline was told during a run, in few bytes, so that the run can be replayed on another card.

Calls are taken down in segments: a step, or 2,000 calls where no step ends. Calls tell distances ("two activities
ago"), not numbers, so the segments of steady steps are equal; each is kept once, and the run is the sequence of
segments with repetitions counted. With the calls go the programs of the recipes that they launch.

Bound: 200,000 calls in distinct segments (some 30 MB at most), 100,000 entries of the sequence, 200,000 engine nodes in
programs (which the recipe cache holds anyway). A run that goes beyond, such as one that compiles at every step, is
taken down up to there: `truncated`.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

from .compiler.program import Program
from .compiler.recipe_document import programs_document
from .spec import CardSpec

FORMAT = 2
"""Version of the document's form."""

END_STEP = ("end_step",)
"""The call that ends an optimizer's step; the timeline itself has none."""

END_MARK = ("end_mark",)
"""The call that ends a step where no optimizer has stepped yet: a step mark."""

SEGMENT_CALLS = 2000
MAX_CALLS = 200_000
MAX_SEQUENCE = 100_000
MAX_NODES = 200_000

Call = tuple[object, ...]


class RunLog:
    """The log of one card; a `device.timeline.Log`."""

    def __init__(self, max_calls: int = MAX_CALLS, max_nodes: int = MAX_NODES) -> None:
        self.truncated = False
        self._max_calls = max_calls
        self._max_nodes = max_nodes
        self._calls: list[Call] = []  # of the open segment
        self._segments: dict[tuple[Call, ...], int] = {}
        self._sequence: list[list[int]] = []  # [segment, repetitions]
        self._same: dict[Call, Call] = {}
        self._stored = 0
        self._nodes = 0
        self._programs: dict[str, Program] = {}
        self._eager: list[str] = []
        self._lock = threading.Lock()

    def add(self, call: Call) -> None:
        """Take down a call."""
        if self.truncated:
            return
        self._calls.append(call)
        if len(self._calls) >= SEGMENT_CALLS:
            self._close()

    def learn(self, name: str, program: Program, eager: bool = False) -> None:
        """The program behind a name that calls use. `eager`: it is one operator, compiled by the eager compiler.

        A name that nobody explains is an operator that runs outside a graph.
        """
        if self.truncated or name in self._programs:
            return
        self._nodes += len(program.nodes)
        if self._nodes > self._max_nodes:
            with self._lock:
                self._truncate()
            return
        with self._lock:
            self._programs[name] = program
            if eager:
                self._eager.append(name)

    def end_step(self, call: tuple[str] = END_STEP) -> None:
        """A step of the training has ended, by an optimizer or by a step mark."""
        if not self.truncated:
            self._calls.append(call)
            self._close()

    def _close(self) -> None:
        with self._lock:
            segment = tuple(self._calls)
            number = self._segments.get(segment)
            is_repetition = bool(self._sequence) and self._sequence[-1][0] == number
            if number is None and self._stored + len(segment) > self._max_calls:
                self._truncate()
                return
            if not is_repetition and len(self._sequence) >= MAX_SEQUENCE:
                self._truncate()
                return
            self._calls.clear()
            if is_repetition:
                self._sequence[-1][1] += 1
                return
            if number is None:
                number = len(self._segments)
                self._segments[tuple(self._same.setdefault(call, call) for call in segment)] = number
                self._stored += len(segment)
            self._sequence.append([number, 1])

    def _truncate(self) -> None:
        self.truncated = True
        self._calls.clear()

    def document(self, spec: CardSpec, launch_thread: bool) -> dict[str, Any]:
        """The log as plain data, callable from any thread.

        Args:
            spec: the card that the run was on.
            launch_thread: whether its timeline has a launch thread of its own.
        """
        with self._lock:
            segments = list(self._segments)
            sequence = [list(entry) for entry in self._sequence]
            rest = tuple(self._calls)
            programs = dict(self._programs)
            eager = list(self._eager)
        if rest:
            sequence.append([len(segments), 1])
            segments.append(rest)
        numbers: dict[Call, int] = {}
        numbered = [[numbers.setdefault(call, len(numbers)) for call in segment] for segment in segments]
        return {
            "format": FORMAT,
            "card": dataclasses.asdict(spec),
            "launch_thread": launch_thread,
            "truncated": self.truncated,
            "recipes": programs_document(programs),
            "eager": eager,
            "calls": [_plain(call) for call in numbers],
            "segments": numbered,
            "sequence": sequence,
        }


def _plain(value: object) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
