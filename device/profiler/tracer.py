"""From what a timeline tells to the events of a trace.

Everything has modelled moments, the host's part too. The bridge's functions and the driver's calls, which the real
profiler shows always, are drawn around what the timeline charges the host for:

    graph build      hpu_lazy
    compile, launch  SyncTensorsGraphInternal, within it ExecuteCachedGraph if the recipe was there,
                     LaunchSyncTensorsGraph and synLaunchWithExternalEvents
    eager operator   LaunchRecipeTask, within it launch_recipe (and add_new_recipe at the first), launch
    copies, waits    synMemCopyAsync, synEventRecord, synEventSynchronize

A gap between what the main thread does is a wait: on that line nothing else takes modelled time.

Left out: the trace buffer's size, which on a card limits how much fits into one trace.
"""

from __future__ import annotations

from collections.abc import Callable

from ..compiler.program import Engine
from ..compiler.recipe import Recipe
from ..network import Transfer
from ..spec import CardSpec
from .configuration import ProfilerConfig
from .events import (
    Event,
    Sink,
    arrow,
    bridge_events,
    collective_event,
    copy_event,
    memory_counter,
    memory_instant,
    nanoseconds,
    node_event,
    processes_named,
    runtime_event,
    thread_named,
    unknown_recipe_event,
)
from .layout import HOST, HOST_LINES, Layout, Place

PREPARED_EVENTS = 50_000  # nodes of recipes whose events are kept ready: about 100 MB
SAME_MOMENT = 1e-12  # seconds; sums of the same durations in another order

Prepared = list[tuple[Event, float, float]]  # event, start and end in the recipe's own seconds


class Tracer:
    """Writes what it is told to a sink. An observer of a card's timeline."""

    def __init__(
        self,
        spec: CardSpec,
        layout: Layout,
        config: ProfilerConfig,
        recipe_of: Callable[[str], Recipe | None],
        sink: Sink,
    ) -> None:
        self._layout = layout
        self._config = config
        self._recipe_of = recipe_of
        self._sink = sink
        self._pool_bytes = spec.hbm.pool_bytes
        self._engines = set(config.engines) if config.hardware_trace else set()
        self._named: set[tuple[int, int]] = set()
        self._recipe_ids: dict[str, int] = {}
        self._prepared: dict[tuple[str, int], Prepared] = {}
        self._prepared_events = 0
        self._enqueues: tuple[str, float] | None = None  # line and start of the host's last launch
        self._compile: tuple[float, float] | None = None
        self._ends: dict[str, float] = {}  # of what each thread did last
        self._lines: dict[tuple[str, tuple[int, ...], str], tuple[int, float]] = {}  # lane and end of the last
        self._arrows = 0
        self._in_use = 0
        self._changes = 0
        for event in processes_named(layout):
            if event.place.engine in self._engines or (event.place.engine in (HOST, *HOST_LINES) and config.host):
                sink.write(event, 0, 0)

    def resume(self) -> None:
        """Something was left out before what comes now: what the host did meanwhile was no wait."""
        self._ends.clear()
        self._compile = self._enqueues = None

    # -- what the timeline tells ----------------------------------------------------------------------------------

    def host(self, name: str, start: float, end: float, thread: str) -> None:
        if not self._config.host:
            return
        if thread == "main":
            self._wait("wait", start, thread)
        self._ends[thread] = end
        self._span(runtime_event(self._host_place(thread), name), start, end)
        if name == "graph build":
            self._function("hpu_lazy", start, end, thread)
        elif name == "compile":
            self._compile = (start, end)
        elif name == "launch":
            self._launch(start, end, thread)
        elif name == "eager operator":
            self._eager(start, end, thread)
        elif name == "graph replay":
            self._function("LaunchSyncTensorsGraph", start, end, thread)
            self._call("synLaunchWithExternalEvents", start, end, thread)
        if name in ("launch", "eager operator", "graph replay"):
            self._enqueues = (thread, start)

    def launched(self, recipe: str, stream: int, enqueued: float, start: float, end: float) -> None:
        if self._enqueues is not None and self._enqueues[0] == "launch":
            self._wait("wait for the queue", enqueued, "launch")
        if not self._engines:
            return
        events = self._events_of(recipe, stream, end - start)
        for event, begin, finish in events:
            self._span(event, start + begin, start + finish)
        line, moment = self._enqueues or ("launch", enqueued)
        if events:
            self._arrow(line, moment, events[0][0].place, start + events[0][1])

    def copied(self, direction: str, nbytes: int, enqueued: float, start: float, end: float) -> None:
        self._wait("wait", enqueued, "main")
        self._call("synMemCopyAsync", enqueued, enqueued, "main")
        self._call("synEventRecord", enqueued, enqueued, "main")
        if "DMA" in self._engines:
            place = self._layout.link(direction)
            self._span(copy_event(place, direction, nbytes), start, end)
            self._arrow("synapse main", enqueued, place, start)

    def collective(self, transfer: Transfer, exposed: float) -> None:
        if "NIC" not in self._engines:
            return
        # What one line carries comes one after another; two lines may carry something at the same time.
        line = (transfer.group, transfer.ranks, transfer.operation if transfer.operation in ("send", "recv") else "")
        lane, free = self._lines.get(line, (len(self._lines), 0.0))
        self._lines[line] = (lane, transfer.end)
        place = self._layout.node(Engine.NIC, lane)
        if transfer.last is not None and transfer.met > max(transfer.begin, free):
            self._span(runtime_event(place, f"wait for rank {transfer.last}"), max(transfer.begin, free), transfer.met)
        self._span(collective_event(place, transfer, exposed), transfer.start, transfer.end)

    def memory(self, moment: float, in_use: int, persistent: int, workspace: int) -> None:
        if not self._config.host:
            return
        place, change = self._host_place("memory"), in_use - self._in_use
        self._span(memory_counter(place, in_use, persistent, workspace), moment, moment)
        if change:
            self._changes += 1
            self._span(memory_instant(place, change, self._changes, in_use, self._pool_bytes), moment, moment)
            self._in_use = in_use

    def bridge(self, name: str, start: float, end: float) -> None:
        self._function(name, start, end, "main")

    def _wait(self, name: str, until: float, thread: str) -> None:
        """The thread did nothing since its last work."""
        since = self._ends.get(thread)
        if since is not None and since < until and self._config.host:
            self._ends[thread] = until
            self._span(runtime_event(self._host_place(thread), name), since, until)
            self._call("synEventSynchronize", since, until, thread)

    # -- the bridge's functions -----------------------------------------------------------------------------------

    def _launch(self, start: float, end: float, thread: str) -> None:
        compiled, self._compile = self._compile, None
        with_compiling = compiled is not None and compiled[1] == start
        begin = compiled[0] if compiled is not None and with_compiling else start
        outer, outer_end = bridge_events(self._host_place(f"bridge {thread}"), "SyncTensorsGraphInternal")
        self._span(outer, begin, begin)
        # Around the launch, because Perfetto loses the end of a function that takes no time.
        cached = bridge_events(outer.place, "ExecuteCachedGraph") if not with_compiling else None
        if cached is not None:
            self._span(cached[0], start, start)
        self._function("LaunchSyncTensorsGraph", start, end, thread)
        if cached is not None:
            self._span(cached[1], end, end)
        self._span(outer_end, end, end)
        self._call("synLaunchWithExternalEvents", start, end, thread)

    def _eager(self, start: float, end: float, thread: str) -> None:
        compiled, self._compile = self._compile, None
        if compiled is not None:
            self._function("add_new_recipe", compiled[0], compiled[1], thread)
        outer, outer_end = bridge_events(self._host_place(f"bridge {thread}"), "LaunchRecipeTask")
        inner, inner_end = bridge_events(outer.place, "launch_recipe")
        self._span(outer, start, start)
        self._span(inner, start, start)
        self._function("launch", start, end, thread)
        self._span(inner_end, end, end)
        self._span(outer_end, end, end)
        self._call("synLaunchWithExternalEvents", start, end, thread)

    def _function(self, name: str, start: float, end: float, thread: str) -> None:
        if self._config.host:
            begin, finish = bridge_events(self._host_place(f"bridge {thread}"), name)
            self._span(begin, start, start)
            self._span(finish, end, end)

    def _call(self, name: str, start: float, end: float, thread: str) -> None:
        if self._config.host:
            self._span(runtime_event(self._host_place(f"synapse {thread}"), name), start, end)

    # -- the card's nodes -----------------------------------------------------------------------------------------

    def _events_of(self, recipe: str, stream: int, seconds: float) -> Prepared:
        events = self._prepared.get((recipe, stream))
        if events is None:
            events = self._prepared[recipe, stream] = self._prepare(recipe, stream, seconds)
            self._prepared_events += len(events)
            while self._prepared_events > PREPARED_EVENTS and len(self._prepared) > 1:
                self._prepared_events -= len(self._prepared.pop(next(iter(self._prepared))))
        return events

    def _prepare(self, name: str, stream: int, seconds: float) -> Prepared:
        number = self._recipe_ids.setdefault(name, len(self._recipe_ids))
        recipe = self._recipe_of(name)
        if recipe is None:
            event = unknown_recipe_event(self._layout.node(Engine.TPC), name, number, stream)
            return [(event, 0.0, seconds)] if "TPC" in self._engines else []
        events: Prepared = []
        free: dict[Engine, list[float]] = {}
        for node in recipe.nodes:
            engine = node.node.engine
            if engine.value not in self._engines:
                continue
            ends = free.setdefault(engine, [])
            lane = next((lane for lane, end in enumerate(ends) if end <= node.start + SAME_MOMENT), len(ends))
            ends[lane : lane + 1] = [node.end]
            place = self._layout.node(engine, lane)
            event = node_event(node, place, name, number, stream, self._config.fuser)
            events.append((event, node.start, node.end))
        return events

    # -- writing --------------------------------------------------------------------------------------------------

    def _host_place(self, line: str) -> Place:
        return self._layout.host(line)

    def _arrow(self, line: str, enqueued: float, target: Place, start: float) -> None:
        if self._config.flow and self._config.host:
            self._arrows += 1
            tail, head = arrow(self._host_place(line), target, self._arrows)
            self._span(tail, enqueued, enqueued)
            self._span(head, start, start)

    def _span(self, event: Event, start: float, end: float) -> None:
        place = event.place
        if (place.pid, place.tid) not in self._named:
            self._named.add((place.pid, place.tid))
            for naming in thread_named(place):
                self._sink.write(naming, 0, 0)
        moment = nanoseconds(start)
        self._sink.write(event, moment, nanoseconds(end) - moment)
