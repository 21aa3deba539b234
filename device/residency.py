"""What lies in the card's memory as graphs end: the bridge's events brought to the pool, and a pool that is full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import modules
from .captured_graph import CapturedGraph, Event
from .events import EventId, dispatcher
from .graph.ir import Graph
from .memory import COPIES, Hbm, Shortage
from .memory.out_of_memory import out_of_memory_error
from .recipes import Recipes
from .timeline import Timeline


class Residency:
    """Keeps the pool of one card in step with the storages of this process."""

    def __init__(self, memory: Hbm, bridge: Any, timeline: Timeline, recipes: Recipes) -> None:
        self.memory = memory
        self._bridge = bridge
        self._timeline = timeline
        self._recipes = recipes

    def sync(self) -> Hbm:
        """The pool as of now. For the thread that uses the card: another would take a graph's events from it."""
        self.memory.apply(self._bridge.drain_memory_events())
        return self.memory

    def reserve(
        self,
        reason: str,
        recording: Any = None,
        origin: str = COPIES,
        workspace: int = 0,
        graph: Graph | None = None,
        addresses: Sequence[int] = (),
    ) -> None:
        """Make room for what has become resident, and for a workspace, before `reason` runs.

        Args:
            reason: what needs it, for messages.
            recording: the graph that has ended, if it is one.
            origin: name of its recipe, which from now on stands for what lies in its buffers.
            workspace: bytes that it needs while it runs.
            graph: the graph, to name the operator at the peak.
            addresses: what a replay uses, in place of a recording.

        Raises:
            torch.OutOfMemoryError: it does not fit.
        """
        memory, events = self.memory, self._bridge.drain_memory_events()
        if graph is not None and graph.largest > memory.limit:  # no such tensor can ever have been made
            memory.abandon(events)
            raise self._error(Shortage(graph.largest, memory.free, memory.largest_free, memory.limit), graph, reason)
        if memory.has_refused:
            if recording is not None:
                addresses = [address for _, _, _, address in recording.buffers()]
            events = memory.readmit(addresses, events)
        shortage = memory.reserve(events, workspace, origin, self._timeline.now)
        while memory.defragmentations:
            done = memory.defragmentations.pop(0)
            self._timeline.defragment(done.nbytes)
            told = {"success": "1", "milliseconds": str(done.milliseconds)}
            dispatcher.publish(EventId.MEMORY_DEFRAGMENTATION, told)
        if shortage is not None:
            raise self._error(shortage, graph, reason)
        observer = self._timeline.observer
        if observer is not None:
            observer.memory(self._timeline.host, memory.in_use, memory.in_use - memory.workspace, memory.workspace)

    def reserve_for_replay(self, captured: CapturedGraph) -> None:
        """Make room for a captured graph, recipe after recipe if it releases what it makes.

        Raises:
            torch.OutOfMemoryError: it does not fit.
        """
        if not captured.releases:
            addresses = captured.counted(captured) if self.memory.has_refused else ()
            self.reserve("replay", workspace=captured.workspace_bytes, addresses=addresses)
            return
        for launch in captured:
            workspace = launch.loaded.recipe.workspace_bytes
            self.reserve("replay", workspace=workspace, addresses=captured.counted([launch]))
            self.set_aside(launch.releases)

    def set_aside(self, events: Sequence[Event]) -> None:
        """Those storages (address, bytes, slot) hold no memory until a graph uses them again."""
        self.sync().set_aside(events)

    def _error(self, shortage: Shortage, graph: Graph | None, reason: str) -> Exception:
        named = self._recipes.graph_named
        return out_of_memory_error(self.memory, shortage, named, graph, reason, modules.own_rank())

    def abandon(self) -> None:
        """The graph that has ended will not run."""
        self.memory.abandon(self._bridge.drain_memory_events())
