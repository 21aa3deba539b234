"""One emulated card: its timeline, memory, compiler, recipe cache and counters, and what happens at a flush.

The native bridge records operators and calls here when a graph has to end. All of it runs under Python's global lock,
which is released while the arithmetic runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from .captured_graph import CapturedGraph
from .captures import Captures
from .capturing import Capturing
from .compiler.recipe import Recipe
from .environment import Settings
from .errors import HpuError
from .events import EventId, dispatcher
from .fences import Fences
from .graph_limits import GraphLimits, Stage
from .host_time import UserCode
from .journal import Journal
from .launches import Launches
from .memory import Hbm, PoolLimits
from .piece import Piece
from .recipes import Origin, Recipes
from .report import card_details, card_figures
from .residency import Residency
from .run_log import END_MARK, END_STEP, RunLog
from .spec import CardSpec
from .timeline import Timeline


class Card:
    """The card that this process holds."""

    def __init__(
        self, spec: CardSpec, settings: Settings, bridge: Any, module: int, limits: PoolLimits | None = None
    ) -> None:
        self.spec = spec
        self.settings = settings
        self.module = module
        self.journal = Journal()
        self.log = RunLog() if settings.keep_log else None
        self.timeline = Timeline(spec, launch_thread=settings.launch_thread, log=self.log)
        self.recipes = Recipes(spec, settings, bridge, self.timeline, self.journal, self.log)
        self.memory = Hbm(spec, limits, learn=settings.lazy)
        self.stream = 0
        self._bridge = bridge
        self._residency = Residency(self.memory, bridge, self.timeline, self.recipes)
        self._user_code = UserCode(bridge) if settings.host_time == "measured" else None
        self.fences = Fences()
        self._limits = GraphLimits(settings.lazy_mode, settings.max_ops, bridge.notify_after) if settings.lazy else None
        self._recorded = 0  # operators of the current graph that the host's time has been charged for
        self._piece: Piece | None = None  # of a compiled program, being recorded
        self._capturing = Capturing()
        self._launches = Launches(self.timeline, self.recipes, self._residency, self.fences, self._capturing)
        self.captures = Captures(self._capturing, self._residency, settings.lazy, self.flush, self.flush_and_wait)
        self._closed = False

    # -- ends of a graph ------------------------------------------------------------------------------------------

    def flush(self, reason: str) -> None:
        """End the current graph and launch it; nothing happens where nothing was recorded."""
        self._catch_up()
        if self._bridge.recorded() == 0:
            return
        self._launch(self._take(), reason)

    def _take(self) -> Any:
        recording = self._bridge.take()
        self._recorded = 0
        if self._limits is not None:
            self._limits.flushed()
        if self._piece is not None:
            self._piece.whole = False
        return recording

    def _launch(self, recording: Any, reason: str, origin: Origin | None = None) -> None:
        """Run a graph that has ended."""
        self._launches.graph(recording, reason, self.stream, origin)
        self._resume()

    def flush_and_wait(self, reason: str) -> None:
        """End the graph and wait for the card, collectives too: `synchronize`."""
        self.flush(reason)
        self.fences.settle()
        self._wait()

    def _wait(self) -> None:
        self.recipes.publish()
        self.timeline.wait()
        self._launches.in_flight.settled()

    def join(self) -> None:
        """Wait for the launch thread: compilations up to here become visible in the metrics."""
        self.recipes.publish()
        self.timeline.join()

    def recipe(self, name: str) -> Recipe | None:
        """The recipe or eager kernel of that name, while it is in a cache or in a captured graph."""
        return self.recipes.by_name(name)

    # -- the host's time ------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Charge the host for what it did since the card was last told."""
        if self._closed:
            raise HpuError("the card is closed: the process is ending; use tensors on hpu before that")
        if self._user_code is not None:
            self.timeline.user(self._user_code.elapsed())
        recorded = self._bridge.recorded()
        if self.settings.lazy and recorded > self._recorded:
            self.timeline.record(recorded - self._recorded)
            self._recorded = recorded

    def _resume(self) -> None:
        if self._user_code is not None:
            self._user_code.resume()

    def _idle(self, reason: Stage) -> None:
        """The host has waited for the card, which has nothing to do now."""
        if self._limits is not None:
            self._limits.happened(reason)

    # -- what the bridge calls ------------------------------------------------------------------------------------

    def on_flush(self, reason: str) -> None:
        """The bridge needs everything recorded so far to have run."""
        if reason == "item":
            self._idle(Stage.READ)
        operator = "::" in reason
        reads = operator or reason in ("item", "device to host copy")
        if reads and self.is_capturing:
            if operator:
                self._capturing.refuse_operator(reason)
            else:
                self._capturing.refuse_read(reason)
        if reason == "synchronize" or operator:
            self.fences.settle()  # which memory such an operator reads is not told
        if not self.settings.lazy:
            if self._piece is not None:
                self.flush(reason)
            if reads and reason != "device to host copy":
                self._catch_up()
                self.timeline.wait()
        elif (reads and reason != "device to host copy") or reason == "synchronize":
            self.flush(reason)
            self._wait()
        else:
            self.flush(reason)

    def on_recorded(self) -> None:
        """The graph is as long as it may become: one operator in eager mode, PT_HPU_MAX_COMPOUND_OP_SIZE in lazy."""
        if self.settings.lazy:
            self.flush("PT_HPU_MAX_COMPOUND_OP_SIZE")
            if self._limits is not None and self._limits.waits:
                self.join()
            return
        if self._piece is not None:
            if self._piece.thread != get_ident():  # an operator of somebody else has come between
                self.flush("an operator of another thread")
            return
        self._catch_up()
        recording = self._bridge.take()
        self._launches.operator(recording, self.stream)
        self._resume()

    def on_transfer(
        self,
        direction: str,
        nbytes: int,
        pinned: bool,
        non_blocking: bool,
        address: int,
        epoch: int,
        dtype: str,
        sizes: tuple[int, ...],
    ) -> None:
        """A copy between host and card is about to happen; what it reads was flushed before."""
        inward = direction == "h2d"
        if not inward and self.is_capturing:
            self._capturing.refuse_read("device to host copy")
        self.fences.before_storage(address)
        self._catch_up()
        if inward:
            self._launches.make_room_for_copy(address, dtype, sizes)
        else:
            self.join()
            self._idle(Stage.COPY_TO_HOST)
        self._launches.copy(direction, nbytes, pinned, non_blocking, address, epoch)
        self.journal.copied(direction, nbytes)
        self._resume()

    def on_immediate(self, operator: str, key: str, read: int, written: int, host_fallback: bool) -> None:
        """An operator ran outside a graph: its result's shape depends on data, or the card does not have it."""
        if self.is_capturing:
            self._capturing.refuse_suspect()
        self._catch_up()
        self._residency.reserve(operator)
        if host_fallback:
            name = operator.removeprefix("aten::")
            self.journal.fallbacks[name] += 1
            dispatcher.publish(EventId.CPU_FALLBACK, {"op_name": name})
            self.timeline.fallback(read, written)
            self._idle(Stage.HOST_FALLBACK)
            self._resume()
            return
        self._launches.immediate(operator, key, read, written, self.stream)
        self._idle(Stage.DATA_DEPENDENT)
        self._resume()

    # -- pieces of compiled programs ------------------------------------------------------------------------------

    def begin_piece(self) -> Piece:
        """From here to `end_piece`, what this thread does on the card is one graph, in eager mode, too."""
        self.flush("compiled program")
        self._piece = Piece(get_ident())
        return self._piece

    def end_piece(self, piece: Piece, origin: Origin) -> None:
        """Run what was recorded since `begin_piece`, and keep the recording with the piece."""
        self._catch_up()
        recording = self._bridge.take() if self._bridge.recorded() else None
        self._piece = None
        if recording is not None:
            piece.recording = recording
            self._launch(recording, "compiled program", origin)

    def drop_piece(self) -> None:
        """What was recorded of a piece that failed runs as it is."""
        self._piece = None
        self.flush("compiled program")

    def run_piece(self, recording: Any) -> bool:
        """Run a piece again over other memory; False where its recipe has left the cache."""
        self.flush("compiled program")
        self._catch_up()
        if not self.recipes.has_graph(recording.signature):
            recording.abandon()
            return False
        self._launch(recording, "compiled program")
        return True

    # -- captured graphs ------------------------------------------------------------------------------------------

    @property
    def is_capturing(self) -> bool:
        return self._capturing.graph is not None

    def replay(self, captured: CapturedGraph, wait: bool = False) -> None:
        """Run a captured graph again, at the price of one launch; `wait`: for the launch, not for the card."""
        if self.is_capturing:
            self._capturing.refuse("a replay", "replay the graph before or after the capture")
        self.flush("replay")
        if not len(captured):
            return
        self._launches.replay(captured, self.stream, self._optimizer_stepped)
        self._resume()
        if wait:
            self.join()

    # -- memory and fences ----------------------------------------------------------------------------------------

    def sync_memory(self) -> Hbm:
        """The memory statistics as of now; for the thread that uses the card."""
        return self._residency.sync()

    def collective_begins(
        self, operation: str, nbytes: int, group: str, ranks: tuple[int, ...], addresses: Sequence[int]
    ) -> float:
        """Flush for a collective of `ranks` on storages at those addresses; the modelled moment at which this card's
        data is ready for it.
        """
        if self.is_capturing:
            self._capturing.refuse_collective(operation)
        self.flush("collective")
        after = self._launches.in_flight.before_collective(addresses)
        return self.timeline.arrive(operation, nbytes, group, ranks, self.stream, after)

    # -- steps and reports ----------------------------------------------------------------------------------------

    def mark_step(self, wait: bool = False) -> None:
        """End of a step as the script sees it."""
        dispatcher.publish(EventId.MARK_STEP, {})
        if self._limits is not None:
            self._limits.marked()
        if self._bridge.recorded() > 0:
            self.flush("mark_step")
            if self.journal.mark(self.timeline.now):
                self._step_ended(END_MARK)
        if wait:
            self.join()

    def end_step(self) -> None:
        """An optimizer has stepped."""
        self._catch_up()
        captured = self._capturing.graph
        if captured is not None:
            captured.steps += 1
        self._optimizer_stepped()

    def _optimizer_stepped(self) -> None:
        self.journal.end_step(self.timeline.now)
        self._step_ended(END_STEP)

    def _step_ended(self, call: tuple[str]) -> None:
        self.memory.end_step(self.timeline.now, self.journal.steps)
        if self.log is not None:
            self.log.end_step(call)

    def close(self) -> None:
        """Run what is left; nothing can be used afterwards."""
        self._capturing.give_up()
        self.flush_and_wait("process exit")
        self._closed = True

    def figures(self) -> dict[str, Any]:
        """What was measured so far, as plain data. Cheap; callable from any thread."""
        return card_figures(
            self.spec, self.module, self.settings, self.timeline, self.memory, self.journal, self.recipes
        )

    def report(self) -> dict[str, Any]:
        """The figures, and what grows with the run: compilations, memory over time, the log where it is kept."""
        log = None if self.log is None else self.log.document(self.spec, self.settings.launch_thread)
        return {**self.figures(), **card_details(self.timeline, self.memory, self.journal), "log": log}


_current: Card | None = None


def current_card() -> Card | None:
    """The card of this process, or None while the process has not used the device."""
    return _current


def acquire(make: Callable[[], Card]) -> Card:
    """The card of this process; the first call makes it."""
    global _current
    if _current is None:
        _current = make()
        dispatcher.publish(EventId.DEVICE_ACQUIRED, {})
    return _current
