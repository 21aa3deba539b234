"""The card's events of one profile of `torch.profiler`, kept on disk until they are exported.

PyTorch times the host by the wall clock, and the card's time is modelled. The card's moment at the start of the
profile is put at the wall clock's moment of the start; from there on each runs by its own clock, and the exported trace
says so.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..card import Card, current_card
from ..environment import flag
from ..events import EventId, dispatcher
from .configuration import ProfilerConfig
from .events import Event, joined
from .layout import TorchLayout
from .observers import attach, detach
from .tracer import Tracer


class DeviceSpan(NamedTuple):
    """Something that the card did: start and duration in nanoseconds, the start counted from the profile's."""

    name: str
    thread: int
    start: int
    duration: int
    args: dict[str, Any]


class Collection:
    """Collects from its making until `end`. A sink of the tracer.

    If the card is not used yet, its first use counts as the profile's start on the card's clock.
    """

    def __init__(self) -> None:
        self.wall_start = time.time_ns()
        self.spec = None if (card := current_card()) is None else card.spec
        self._file = tempfile.TemporaryFile("w+b")  # noqa: SIM115
        self._failed = False
        self._origin = 0
        self._card: Card | None = None
        self._tracer: Tracer | None = None
        self._waiting = 0
        if card is not None:
            self._begin(card)
        else:
            self._waiting = dispatcher.subscribe(EventId.DEVICE_ACQUIRED, self._on_acquired)

    def _on_acquired(self, stamp: float, parameters: dict[str, Any]) -> None:
        card = current_card()
        if card is not None:
            self._begin(card)

    def _begin(self, card: Card) -> None:
        self._card, self.spec = card, card.spec
        self._origin = round(card.timeline.host * 1e9)
        config = ProfilerConfig(phase="profileApi", flow=flag("PT_TB_ENABLE_FLOW_EVENTS", True))
        self._tracer = Tracer(card.spec, TorchLayout(card.spec), config, card.recipe, self)
        attach(card.timeline, self._tracer)

    def synchronize(self) -> None:
        """End the current graph and wait for the card, so that what was recorded so far is in the collection."""
        if self._card is not None:
            self._card.flush_and_wait("synchronize")

    def end(self) -> None:
        """Collect no further."""
        dispatcher.unsubscribe(self._waiting)
        if self._card is not None and self._tracer is not None:
            detach(self._card.timeline, self._tracer)
            self._card = self._tracer = None

    def write(self, event: Event, start: int, duration: int) -> None:
        if self._failed:
            return
        line = f"{event.phase}\t{start - self._origin}\t{duration}\t{event.category}\t{event.head}\t{event.tail}\n"
        try:
            self._file.write(line.encode())
        except OSError as error:
            self._failed = True
            print(
                f"profiler: cannot keep the card's events in {tempfile.gettempdir()}: {error.strerror}; the profile "
                "goes on without them. Make room, or choose another folder with TMPDIR",
                file=sys.stderr,
                flush=True,
            )

    def _lines(self) -> Iterator[list[str]]:
        self._file.seek(0)
        for line in self._file:
            fields = line.decode().rstrip("\n").split("\t")
            if len(fields) == 6:  # the last one may be cut off where the disk was full
                yield fields
        self._file.seek(0, os.SEEK_END)

    def texts(self, base: int) -> Iterator[str]:
        """All events as JSON, with moments counted from `base`, in nanoseconds since the epoch."""
        shift = self.wall_start - base
        for phase, start, duration, _, head, tail in self._lines():
            yield joined(head, tail, phase, int(start) + shift, int(duration))

    def device_spans(self) -> Iterator[DeviceSpan]:
        """What the card's engines did."""
        for phase, start, duration, category, head, tail in self._lines():
            if phase == "X" and category in ("Kernel", "Memcpy", "Memset"):
                event = json.loads(head + tail)
                yield DeviceSpan(event["name"], event["tid"], int(start), int(duration), event["args"])
