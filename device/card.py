"""One emulated card: its timeline, memory, compiler, recipe cache and counters, and what happens at a flush.

The native bridge records operators and calls here when a graph has to end. All of it runs under Python's global lock,
which is released while the arithmetic runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import modules
from .captured_graph import CapturedGraph
from .compiler.compile import compile_graph, eager_program, place
from .compiler.cost import compile_seconds
from .compiler.program import Access, Engine, EngineNode, Program, ProgramBuffer
from .compiler.recipe import Recipe
from .environment import Settings
from .errors import HpuError
from .events import EventId, dispatcher
from .executor import EagerKernel, LoadedRecipe
from .graph.causes import FIRST, Cause, explain
from .graph.ir import graph_of
from .graph.location import locate
from .host_time import UserCode
from .in_flight import InFlight
from .journal import Compilation, Journal
from .memory import Hbm, aligned
from .recipe_cache import RecipeCache
from .report import card_report
from .spec import CardSpec
from .timeline import Timeline

DATA_DEPENDENT = "result's shape depends on data"


class Card:
    """The card that this process holds."""

    def __init__(self, spec: CardSpec, settings: Settings, bridge: Any) -> None:
        self.spec = spec
        self.settings = settings
        self.module = modules.own_module()
        self.timeline = Timeline(spec, launch_thread=settings.launch_thread)
        self.memory = Hbm(spec)
        self.journal = Journal()
        self.recipes: RecipeCache[LoadedRecipe] = RecipeCache(settings.lru_capacity)
        self.kernels: RecipeCache[EagerKernel] = RecipeCache(settings.lru_capacity)
        self.stream = 0
        self._bridge = bridge
        self._programs: dict[str, Recipe] = {}
        self._in_flight = InFlight(self.timeline)
        self._user_code = UserCode(bridge) if settings.host_time == "measured" else None
        self._lines: dict[str, str] = {}
        self._unpublished: list[Compilation] = []
        self._immediate: set[str] = set()
        self._fences: list[Callable[[], None]] = []
        self._recorded = 0  # operators of the current graph that the host's time has been charged for
        self._capture: CapturedGraph | None = None
        self._closed = False

    # -- ends of a graph ------------------------------------------------------------------------------------------

    def flush(self, reason: str) -> None:
        """End the current graph and launch it; nothing happens where nothing was recorded."""
        self._settle_fences()
        self._catch_up()
        if self._bridge.recorded() == 0:
            return
        self._publish()  # the one launch thread finishes what it had before it takes more
        recording = self._bridge.take()
        self._recorded = 0
        try:
            self.timeline.hand_over()
            loaded, event = self._recipe_of(recording)
            self._reserve(loaded.recipe.output_bytes, loaded.recipe.workspace_bytes, reason)
        except BaseException:
            recording.abandon()
            raise
        number = self.timeline.launch(loaded.recipe.name, self.stream, self._in_flight.before_launch(recording))
        self._in_flight.launched(recording.epoch, number)
        loaded.run(recording)
        if self._capture is not None:
            self._capture.add(loaded, recording)
        # Told last: a listener may use the card, which waits until this graph has run.
        dispatcher.publish(event, {"recipe_id": loaded.recipe.signature[:16]})
        self._resume()

    def flush_and_wait(self, reason: str) -> None:
        """End the graph and wait for the card: reads of a value and `synchronize`."""
        self.flush(reason)
        self._publish()
        self.timeline.wait()
        self._in_flight.settled()

    def join(self) -> None:
        """Wait for the launch thread: compilations up to here become visible in the metrics."""
        self._publish()
        self.timeline.join()

    def _publish(self) -> None:
        for compilation in self._unpublished:
            dispatcher.publish(
                EventId.GRAPH_COMPILATION,
                {
                    "duration": str(round(compilation.seconds * 1e6)),
                    "recipe": f".graph_dumps/{compilation.recipe}",
                },
            )
        self._unpublished.clear()

    def _recipe_of(self, recording: Any) -> tuple[LoadedRecipe, EventId]:
        signature = recording.signature
        loaded = self.recipes.get(signature)
        if loaded is not None:
            return loaded, EventId.CACHE_HIT
        graph = graph_of(recording, self._lines)
        cause = explain(graph, [entry.graph for entry in self.recipes])
        recipe = compile_graph(graph, self.spec, len(self.journal.compilations))
        self._compiled(recipe.name, recipe.compile_seconds, cause, len(graph.nodes))
        self._learn(recipe)
        loaded = LoadedRecipe(recipe, graph, self._bridge.Executable(recording))
        recording.remember()
        self.recipes.put(signature, loaded)
        return loaded, EventId.CACHE_MISS

    def _compiled(self, name: str, seconds: float, cause: Cause, nodes: int) -> None:
        compilation = Compilation(name, seconds, cause, self.journal.steps, nodes)
        self.timeline.compile(name, seconds)
        self.journal.compilations.append(compilation)
        self._unpublished.append(compilation)

    def _learn(self, recipe: Recipe) -> None:
        self._programs[recipe.name] = recipe
        self.timeline.learn(recipe.name, recipe.seconds)

    def recipe(self, name: str) -> Recipe | None:
        """The recipe or eager kernel of that name, if this process has made it."""
        return self._programs.get(name)

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

    # -- what the bridge calls ------------------------------------------------------------------------------------

    def on_flush(self, reason: str) -> None:
        """The bridge needs everything recorded so far to have run."""
        reads = reason in ("item", "device to host copy") or reason.startswith("aten::")
        if reads and self._capture is not None:
            self._refuse_in_capture(f"{reason} needs a value on the host, which")
        if not self.settings.lazy:
            self._settle_fences()
            if reads and reason != "device to host copy":
                self._catch_up()
                self.timeline.wait()
        elif reason in ("item", "synchronize") or reason.startswith("aten::"):
            self.flush_and_wait(reason)
        else:
            self.flush(reason)

    def on_recorded(self) -> None:
        """The graph is as long as it may become: one operator in eager mode, PT_HPU_MAX_COMPOUND_OP_SIZE in lazy."""
        if self.settings.lazy:
            self.flush("PT_HPU_MAX_COMPOUND_OP_SIZE")
            return
        self._settle_fences()
        self._catch_up()
        recording = self._bridge.take()
        try:
            kernel = self.kernels.get(recording.signature)
            if kernel is None:
                kernel = self._eager_kernel(recording)
            self._reserve(kernel.output_bytes, 0, kernel.name)
        except BaseException:
            recording.abandon()
            raise
        number = self.timeline.eager(kernel.name, self.stream, self._in_flight.before_launch(recording))
        self._in_flight.launched(recording.epoch, number)
        kernel.executable.run(recording)
        self._resume()

    def _eager_kernel(self, recording: Any) -> EagerKernel:
        graph = graph_of(recording, {})
        name = f"{graph.nodes[0].op}_{graph.signature[:12]}"
        recipe = place(eager_program(graph), self.spec, name, graph.signature)
        output = sum(aligned(buffer.nbytes) for buffer in graph.buffers if buffer.is_output)
        kernel = EagerKernel(name, output, self._bridge.Executable(recording))
        recording.remember()
        self._learn(recipe)
        self.timeline.compile(name, self.spec.compile.eager_s)
        self.kernels.put(recording.signature, kernel)
        return kernel

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
        """A copy between host and card is about to happen; what it reads was flushed before.

        The host goes on at once only where that was asked for and, on the way out, the host's memory is pinned.
        """
        inward = direction == "h2d"
        if not inward and self._capture is not None:
            self._refuse_in_capture("a copy to the host, which")
        self._settle_fences()
        self._catch_up()
        if inward:
            self._reserve(0, 0, "copy to the card")
        else:
            self.join()
        wait = not non_blocking or not (inward or pinned)
        after = self._in_flight.before_copy(address, epoch)
        number = self.timeline.copy(direction, nbytes, pinned, wait, after)
        if inward and not wait:
            self._in_flight.copied(address, number)
        self.journal.copied(direction, nbytes)
        self._resume()

    def on_immediate(self, operator: str, key: str, read: int, written: int, host_fallback: bool) -> None:
        """An operator ran outside a graph: its result's shape depends on data, or the card does not have it."""
        self._catch_up()
        self._reserve(0, 0, operator)
        if host_fallback:
            name = operator.removeprefix("aten::")
            self.journal.fallbacks[name] += 1
            dispatcher.publish(EventId.CPU_FALLBACK, {"op_name": name})
            self.timeline.fallback(read, written)
            self._resume()
            return
        name = f"{operator}_{key[:12]}"
        if name not in self._programs:
            self._learn(place(_single(operator, read, written), self.spec, name, key))
            if self.settings.lazy:
                text = DATA_DEPENDENT if operator in self._immediate else FIRST
                self._immediate.add(operator)
                seconds = compile_seconds(Program((), (), 1), self.spec)
                self._compiled(name, seconds, Cause(text, operator, locate()), 1)
        self.timeline.launch(name, self.stream)
        self.timeline.wait()
        self._resume()

    # -- captured graphs ------------------------------------------------------------------------------------------

    def capture_begin(self) -> None:
        """From here on graphs are kept as well as run.

        Raises:
            HpuError: not in lazy mode, or a capture is under way.
        """
        if not self.settings.lazy:
            raise HpuError("HPU graphs are captured in lazy mode only; set PT_HPU_LAZY_MODE=1")
        if self._capture is not None:
            raise HpuError("a capture of an HPU graph is under way; end it with capture_end() before the next")
        self.flush_and_wait("capture_begin")
        self._capture = CapturedGraph()

    def capture_end(self) -> CapturedGraph:
        """What ran since `capture_begin`.

        Raises:
            HpuError: no capture is under way.
        """
        if self._capture is None:
            raise HpuError("no capture of an HPU graph is under way; call capture_begin() first")
        self.flush("capture_end")
        captured, self._capture = self._capture, None
        self.flush_and_wait("capture_end")
        return captured

    @property
    def is_capturing(self) -> bool:
        return self._capture is not None

    def replay(self, captured: CapturedGraph, wait: bool = False) -> None:
        """Run a captured graph again, at the price of one launch."""
        if self._capture is not None:
            self._refuse_in_capture("a replay, which")
        self.flush("replay")
        if not len(captured):
            return
        self.timeline.hand_over()
        self._reserve(0, 0, "replay")
        self.timeline.replay(captured.recipes, self.stream)
        captured.run()
        self._resume()
        if wait:
            self.flush_and_wait("replay")

    def _refuse_in_capture(self, what: str) -> None:
        self._capture = None
        raise HpuError(
            f"{what} is not supported during hpu graph capturing; the capture has ended. Keep reads of values, "
            "operators whose result's shape depends on data, cpu fallback and collectives out of what is captured"
        )

    # -- memory and fences ----------------------------------------------------------------------------------------

    def sync_memory(self) -> Hbm:
        """The memory statistics as of now."""
        self.memory.apply(self._bridge.drain_memory_events())
        return self.memory

    def _reserve(self, output_bytes: int, workspace: int, reason: str) -> None:
        # Outputs were logged as resident when the graph ended, so they are counted already.
        memory = self.sync_memory()
        missing = memory.shortfall(0, workspace)
        if missing:
            wanted = max(output_bytes, missing)
            free = max(0, memory.limit - memory.in_use + output_bytes)
            raise torch.OutOfMemoryError(
                f"FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::{wanted} ({wanted / 2**20:.0f})MB "
                f"[Rank:{self.rank}] while running {reason}: {free} bytes of {memory.limit} are free, "
                f"workspace {max(workspace, memory.workspace)} bytes; use a smaller batch or a larger card"
            )
        memory.require_workspace(workspace)

    @property
    def rank(self) -> int:
        return modules.own_rank()

    def add_fence(self, wait: Callable[[], None]) -> None:
        """Call `wait` once before the card next runs anything or is read."""
        self._fences.append(wait)

    def _settle_fences(self) -> None:
        while self._fences:
            self._fences.pop(0)()

    def collective_begins(self) -> float:
        """Flush for a collective; the modelled moment at which this card's data is ready for it."""
        if self._capture is not None:
            self._refuse_in_capture("collective nonSFG")
        self.flush("collective")
        return self.timeline.now

    # -- steps and reports ----------------------------------------------------------------------------------------

    def mark_step(self, wait: bool = False) -> None:
        """End of a step as the script sees it."""
        dispatcher.publish(EventId.MARK_STEP, {})
        if self._bridge.recorded() > 0:
            self.journal.marks += 1
            self.flush("mark_step")
        if wait:
            self.join()

    def end_step(self) -> None:
        """An optimizer has stepped."""
        self._catch_up()
        self.journal.end_step(self.timeline.now)

    def close(self) -> None:
        """Run what is left; nothing can be used afterwards."""
        self._capture = None
        self.flush_and_wait("process exit")
        self._closed = True

    def report(self) -> dict[str, Any]:
        """Everything measured so far, as plain data. Cheap; callable from any thread."""
        cache: RecipeCache[Any] = self.recipes if self.settings.lazy else self.kernels
        return card_report(
            self.spec, self.module, self.settings, self.timeline, self.sync_memory(), self.journal, cache
        )


def _single(operator: str, read: int, written: int) -> Program:
    """The program of one operator of which only the traffic is known, in bytes."""
    kind = operator.removeprefix("aten::")
    node = EngineNode(
        Engine.TPC, kind, kind, "other", "Float", (), 0.0, (Access(0, read),), (Access(1, written),), (0,), ""
    )
    return Program((node,), (ProgramBuffer(read, True, True), ProgramBuffer(written, False, True)), 1)


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
