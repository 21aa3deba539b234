"""One emulated card: its clock, memory, compiler, recipe cache and counters, and what happens at a flush.

The native bridge records operators and calls here when a graph has to end. All of it runs under Python's global lock,
which is released while the arithmetic runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import modules
from .clock import Clock
from .compiler.compile import compile_graph, place
from .compiler.cost import compile_seconds, transfer_seconds
from .compiler.lowering import lower
from .compiler.program import Program
from .environment import Settings
from .events import EventId, dispatcher
from .executor import EagerKernel, LoadedRecipe
from .graph.causes import FIRST, Cause, explain
from .graph.ir import graph_of
from .graph.location import locate
from .journal import Compilation, Journal
from .memory import Hbm, aligned
from .recipe_cache import RecipeCache
from .report import card_report
from .spec import CardSpec

DATA_DEPENDENT = "result's shape depends on data"


class Card:
    """The card that this process holds."""

    def __init__(self, spec: CardSpec, settings: Settings, bridge: Any) -> None:
        self.spec = spec
        self.settings = settings
        self.module = modules.own_module()
        self.clock = Clock()
        self.memory = Hbm(spec)
        self.journal = Journal()
        self.recipes: RecipeCache[LoadedRecipe] = RecipeCache(settings.lru_capacity)
        self.kernels: RecipeCache[EagerKernel] = RecipeCache(settings.lru_capacity)
        self._bridge = bridge
        self._lines: dict[str, str] = {}
        self._unpublished: list[Compilation] = []
        self._immediate: set[str] = set()
        self._fences: list[Callable[[], None]] = []

    # -- ends of a graph ------------------------------------------------------------------------------------------

    def flush(self, reason: str) -> None:
        """End the current graph and launch it; nothing happens where nothing was recorded."""
        self._settle_fences()
        if self._bridge.recorded() == 0:
            return
        self.join()  # the one launch thread finishes what it had before it takes more
        recording = self._bridge.take()
        try:
            self.clock.work(len(recording) * self.spec.host.record_s)
            loaded, event = self._recipe_of(recording)
            self._reserve(loaded.recipe.output_bytes, loaded.recipe.workspace_bytes, reason)
        except BaseException:
            recording.abandon()
            raise
        self.clock.work(self.spec.host.launch_s)
        self.clock.launch(loaded.recipe.seconds)
        self.journal.device_seconds += loaded.recipe.seconds
        loaded.run(recording)
        # Told last: a listener may use the card, which waits until this graph has run.
        dispatcher.publish(event, {"recipe_id": loaded.recipe.signature[:16]})

    def flush_and_wait(self, reason: str) -> None:
        """End the graph and wait for the card: reads of a value and `synchronize`."""
        self.flush(reason)
        self.join()
        self.clock.wait()

    def join(self) -> None:
        """The launch thread has finished: compilations up to here become visible in the metrics."""
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
        loaded = LoadedRecipe(recipe, graph, self._bridge.Executable(recording))
        recording.remember()
        self.recipes.put(signature, loaded)
        return loaded, EventId.CACHE_MISS

    def _compiled(self, name: str, seconds: float, cause: Cause, nodes: int) -> None:
        compilation = Compilation(name, seconds, cause, self.journal.steps, nodes)
        self.clock.work(seconds)
        self.journal.compile_seconds += seconds
        self.journal.compilations.append(compilation)
        self._unpublished.append(compilation)

    # -- what the bridge calls ------------------------------------------------------------------------------------

    def on_flush(self, reason: str) -> None:
        """The bridge needs everything recorded so far to have run."""
        if not self.settings.lazy:
            self._settle_fences()
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
        recording = self._bridge.take()
        try:
            kernel = self.kernels.get(recording.signature)
            if kernel is None:
                kernel = self._eager_kernel(recording)
            self._reserve(kernel.output_bytes, 0, kernel.name)
        except BaseException:
            recording.abandon()
            raise
        self.clock.work(self.spec.host.eager_launch_s)
        self.clock.launch(kernel.seconds)
        self.journal.device_seconds += kernel.seconds
        kernel.executable.run(recording)

    def _eager_kernel(self, recording: Any) -> EagerKernel:
        graph = graph_of(recording, {})
        seconds = place(lower(graph), self.spec, graph.nodes[0].op, graph.signature).seconds
        output = sum(aligned(buffer.nbytes) for buffer in graph.buffers if buffer.is_output)
        kernel = EagerKernel(graph.nodes[0].op, seconds, output, self._bridge.Executable(recording))
        recording.remember()
        self.clock.work(self.spec.compile.eager_s)
        self.journal.compile_seconds += self.spec.compile.eager_s
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
        """A copy between host and card is about to happen; what it reads was flushed before."""
        self._settle_fences()
        seconds = transfer_seconds(nbytes, self.spec)
        if direction == "h2d":
            self._reserve(0, 0, "copy to the card")
            self.clock.work(seconds)
            return
        self.join()
        self.clock.wait()
        self.clock.work(seconds)

    def on_immediate(self, operator: str, key: str, nbytes: int, host_fallback: bool) -> None:
        """An operator ran outside a graph: its result's shape depends on data, or the card does not have it."""
        self._reserve(0, 0, operator)
        if host_fallback:
            name = operator.removeprefix("aten::")
            self.journal.fallbacks[name] += 1
            dispatcher.publish(EventId.CPU_FALLBACK, {"op_name": name})
            self.clock.work(2 * transfer_seconds(nbytes, self.spec))
            return
        if self.settings.lazy and key not in self._immediate:
            text = DATA_DEPENDENT if operator in self._immediate else FIRST
            self._immediate |= {key, operator}
            name = f"graph_{len(self.journal.compilations)}_{key[:12]}"
            self._compiled(name, compile_seconds(Program((), (), 1), self.spec), Cause(text, operator, locate()), 1)
        self.clock.work(self.spec.host.launch_s)
        self.clock.launch(self.spec.device.kernel_s)
        self.clock.wait()

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
        self.journal.end_step(self.clock.now)

    def report(self) -> dict[str, Any]:
        """Everything measured so far, as plain data. Cheap; callable from any thread."""
        cache: RecipeCache[Any] = self.recipes if self.settings.lazy else self.kernels
        return card_report(self.spec, self.module, self.settings, self.clock, self.sync_memory(), self.journal, cache)


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
