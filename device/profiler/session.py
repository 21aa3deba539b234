"""A profiling session: which part of a run is traced, into which files.

By the phase of its configuration:

    device-acq   everything, from the first use of the card to the end of the process
    multi-enq    the launches A to B, counted from 0, with what the host did for them; all launches without a range
    enq          the same, each launch in a file of its own
    profileApi   what lies between calls of `start` and `stop`; several such ranges make one file

A session without the host's events, and one of single launches, is a trace of the hardware and named so (`naming.py`).
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Protocol

from .. import modules
from ..compiler.recipe import Recipe
from ..network import Transfer
from ..spec import CardSpec
from ..timeline import Timeline
from .configuration import ProfilerConfig
from .json_trace import session_header
from .layout import SessionLayout
from .naming import hardware_name, merged_name, session_name
from .observers import attach, detach
from .outputs import Outputs
from .tracer import Tracer


class ProfiledCard(Protocol):
    """What a session needs of a card."""

    spec: CardSpec
    module: int
    timeline: Timeline

    def recipe(self, name: str) -> Recipe | None: ...


class Session:
    """Traces one card by a configuration. An observer of its timeline that passes on what it is to trace."""

    def __init__(self, config: ProfilerConfig, card: ProfiledCard) -> None:
        self.config = config
        self._card = card
        self._name = session_name(config.session, time.localtime())
        self._launches = 0
        self._recording = False
        self._over = False
        self._tracer: Tracer | None = None
        self._outputs: Outputs | None = None
        if config.phase != "profileApi":
            attach(card.timeline, self)
            self._enter_range()

    @property
    def by_calls(self) -> bool:
        """Whether `start` and `stop` choose what is traced."""
        return self.config.phase == "profileApi"

    @property
    def paths(self) -> list[Path]:
        """Files that are being written, or were last published."""
        return self._outputs.paths if self._outputs is not None else []

    # -- what is traced -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Trace from here on; a second call changes nothing."""
        if self._recording or self._over:
            return
        if self._outputs is not None and all(path.exists() for path in self._outputs.paths):
            self._outputs.resume()
            if self._tracer is not None:
                self._tracer.resume()
        else:
            if self._outputs is not None:
                self._outputs.discard()
            self._open(None)
        if not self._over:
            attach(self._card.timeline, self)
            self._recording = True

    def stop(self) -> None:
        """Trace no further; the files are complete as of now."""
        if self._recording and self._outputs is not None:
            self._outputs.publish()
            self._recording = False
            detach(self._card.timeline, self)

    def finish(self) -> None:
        """The end of the process, or of what is to be traced."""
        self._over = True
        self._recording = False
        detach(self._card.timeline, self)
        if self._outputs is not None:
            self._outputs.close()
            self._outputs = None

    def _range(self) -> tuple[int, int] | None:
        return None if self.config.phase == "device-acq" else self.config.invocations

    def _enter_range(self) -> None:
        """Before a launch: begin where it is in the range."""
        chosen = self._range()
        if chosen is not None and not chosen[0] <= self._launches <= chosen[1]:
            return
        self._recording = True
        if self._outputs is None:
            each = self.config.phase == "enq"
            self._open((self._launches, self._launches) if each else chosen)

    def _leave_range(self) -> None:
        """After a launch."""
        self._launches += 1
        chosen = self._range()
        if chosen is not None and self._launches > chosen[1]:
            self.finish()
            return
        if self.config.phase == "enq" and self._outputs is not None:
            self._outputs.close()
            self._outputs = None
            self._recording = False
        if not self._recording:
            self._enter_range()

    def _open(self, invocations: tuple[int, int] | None) -> None:
        config, card = self.config, self._card
        formats = dict.fromkeys((*config.formats, *(("csv",) if config.csv else ())))
        if config.host and config.phase != "enq":
            names = [merged_name(config, self._name, extension) for extension in formats]
        else:
            names = [hardware_name(config, self._name, card.module, invocations, extension) for extension in formats]
        header = session_header(card.spec, card.module, modules.own_rank(), config.session)
        folder = Path(config.output_dir)
        with contextlib.suppress(FileNotFoundError):  # a directory that is gone is told of where it is written to
            folder = folder.absolute()  # the script may change its directory
        self._outputs = Outputs([folder / name for name in names], header, self._lost)
        if not self._over:
            self._tracer = Tracer(card.spec, SessionLayout(card.spec), config, card.recipe, self._outputs)

    def _lost(self) -> None:
        self._over = True
        self._recording = False
        detach(self._card.timeline, self)

    # -- what the card tells --------------------------------------------------------------------------------------

    def host(self, name: str, start: float, end: float, thread: str) -> None:
        if self._recording and self._tracer is not None:
            self._tracer.host(name, start, end, thread)

    def launched(self, recipe: str, stream: int, enqueued: float, start: float, end: float) -> None:
        if self._recording and self._tracer is not None:
            self._tracer.launched(recipe, stream, enqueued, start, end)
        if not self.by_calls and not self._over:
            self._leave_range()

    def copied(self, direction: str, nbytes: int, enqueued: float, start: float, end: float) -> None:
        if self._recording and self._tracer is not None:
            self._tracer.copied(direction, nbytes, enqueued, start, end)

    def collective(self, transfer: Transfer, exposed: float) -> None:
        if self._recording and self._tracer is not None:
            self._tracer.collective(transfer, exposed)

    def memory(self, moment: float, in_use: int, persistent: int, workspace: int) -> None:
        if self._recording and self._tracer is not None:
            self._tracer.memory(moment, in_use, persistent, workspace)

    def bridge(self, name: str, start: float, end: float) -> None:
        if self._recording and self._tracer is not None:
            self._tracer.bridge(name, start, end)
