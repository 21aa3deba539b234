"""Modelled time of one card, in seconds from the start of the process.

Lines of time: the host's main thread, which runs the script and records; its launch thread, which compiles and
launches; the card's streams, which order work; and the card's resources, of which each does one thing at a time: the
compute engines as one (a recipe has them to itself and overlaps them inside), copies in and copies out over PCIe. The
network ports carry collectives beside all that (`network.py`).

    launch:  starts when the launch thread has launched it, its stream has come so far, the engines are free, and the
             copies that it reads have arrived
    copy:    starts when the host has issued it, the link is free, and the recipes that use its card side have ended
    wait:    the main thread goes on when the awaited has ended
    collective: a rank is ready for it when its stream has come so far; the stream, or the host, goes on after its end
             where the program waits for it or uses its memory

Left out: the time of the user's own Python between operators, unless it is measured (`user`); contention of the host's
cores; the overlap of two recipes on the compute engines.

Everything that advances time is a method with plain arguments that do not depend on the card, and is written to a log
if there is one: the same calls on another card's timeline give that card's times (`device/replay.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from .compiler.cost import transfer_seconds
from .inside import Inside
from .network import NetworkPorts, Transfer
from .observer import Log, Observer
from .spec import ENGINES, CardSpec

COMPUTE, COPY_IN, COPY_OUT = "compute", "copy in", "copy out"
STREAM, HOST, NOBODY, INSIDE = "stream", "host", "nobody", "inside"
REMEMBERED = 4096  # activities whose ends are known; older ones lie behind any queue


class Timeline:
    """Where host and card stand."""

    def __init__(self, spec: CardSpec, launch_thread: bool = True, log: Log | None = None) -> None:
        self.spec = spec
        self.observer: Observer | None = None
        self.main = 0.0
        self.launcher = 0.0
        self.streams: dict[int, float] = {0: 0.0}
        self.free = {COMPUTE: 0.0, COPY_IN: 0.0, COPY_OUT: 0.0}
        self.busy = {COMPUTE: 0.0, COPY_IN: 0.0, COPY_OUT: 0.0}  # seconds of work
        self.engines = dict.fromkeys(ENGINES, 0.0)  # seconds in which each kind of engine was busy
        self.activities = 0  # launches and copies so far
        self.host_work: dict[str, list[float]] = {}  # what the host's threads did: how often, and seconds in all
        self.compiling = 0.0
        self._log = log
        self._launch_thread = launch_thread
        self.ports = NetworkPorts(spec.hbm.bandwidth_bytes_per_s)
        self._durations: dict[str, float] = {}
        self._hbm_shares: dict[str, float] = {}
        self._shares: dict[str, tuple[tuple[str, float], ...]] = {}
        self._collectives: dict[str, tuple[float, ...]] = {}  # when those of each recipe begin, from its start
        self._inside = Inside()
        self._queue: deque[float] = deque()  # ends of the launches that the card has not finished
        self._ends: dict[int, float] = {}  # of recent activities, by number
        self._marks: dict[int, float] = {}  # those that somebody still has
        self._marked = 0  # marks so far

    # -- the host -------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The end of all work so far."""
        return max(self.main, self.launcher, self.ports.free, *self.streams.values(), *self.free.values())

    @property
    def host(self) -> float:
        """Where the main thread stands."""
        return self.main

    def record(self, operators: int) -> None:
        """The main thread has recorded operators."""
        self._note("record", operators)
        self._main_works("graph build", operators * self.spec.host.record_s)

    def reducer(self, gradients: int) -> None:
        """DistributedDataParallel's own work in a training step, for so many gradients."""
        self._note("reducer", gradients)
        self._main_works("ddp", self.spec.host.ddp_forward_s + gradients * self.spec.host.ddp_gradient_s)

    def user(self, seconds: float) -> None:
        """The main thread has run the user's own code, measured."""
        self._note("user", seconds)
        self._main_works("user code", seconds)

    def _main_works(self, name: str, seconds: float) -> None:
        start = self.main
        self.main += seconds
        self._did(name, seconds)
        if self.observer is not None and seconds > 0:
            self.observer.host(name, start, self.main, "main")

    def _launcher_works(self, name: str, seconds: float) -> None:
        start = self.launcher
        self.launcher += seconds
        self._did(name, seconds)
        if not self._launch_thread:
            self.main = self.launcher
        if self.observer is not None and seconds > 0:
            self.observer.host(name, start, self.launcher, "launch" if self._launch_thread else "main")

    def _did(self, name: str, seconds: float) -> None:
        work = self.host_work.get(name)
        if work is None:
            work = self.host_work[name] = [0, 0.0]
        work[0] += 1
        work[1] += seconds

    def hand_over(self) -> None:
        """The main thread gives the launch thread a graph; there is one, and it must have finished the last."""
        self._note("hand_over")
        self.main = max(self.main, self.launcher)
        self.launcher = self.main

    def compile(self, seconds_of: str, seconds: float) -> None:
        """The launch thread compiles the recipe of that name."""
        self._note("compile", seconds_of)
        self.compiling += seconds
        self._launcher_works("compile", seconds)

    # -- the card -------------------------------------------------------------------------------------------------

    def learn(
        self,
        recipe: str,
        seconds: float,
        engines: Mapping[str, float] | None = None,
        hbm_bytes: float = 0.0,
        collectives: tuple[float, ...] = (),
    ) -> None:
        """How long the recipe of that name runs on this card and keeps each engine busy; bytes that it moves in HBM.

        `collectives`: when those that are part of it begin, in seconds from its start.
        """
        self._collectives[recipe] = collectives
        self._durations[recipe] = seconds
        possible = seconds * self.spec.hbm.bandwidth_bytes_per_s
        self._hbm_shares[recipe] = min(1.0, hbm_bytes / possible) if possible > 0 else 0.0
        self._shares[recipe] = tuple((engines or {}).items())

    def launch(self, recipe: str, stream: int = 0, after: tuple[int, ...] = ()) -> int:
        """Launch a recipe. `after`: how many activities ago the copies were issued that it reads. Its number."""
        self._note("launch", recipe, stream, after)
        self._inside = Inside(stream)
        self._launcher_works("launch", self.spec.host.launch_s)
        return self._enqueue(recipe, stream, after)

    def eager(self, kernel: str, stream: int = 0, after: tuple[int, ...] = ()) -> int:
        """One operator of eager mode goes through the host's pipeline, whose slowest stage sets the pace."""
        self._note("eager", kernel, stream, after)
        self._main_works("eager operator", self.spec.host.eager_launch_s)
        self.launcher = max(self.launcher, self.main)
        return self._enqueue(kernel, stream, after)

    def replay(self, recipes: tuple[str, ...], stream: int = 0, after: tuple[int, ...] = ()) -> int:
        """Launch the recipes of a captured graph, at one price for all."""
        self._note("replay", recipes, stream, after)
        self._inside = Inside(stream)
        self._launcher_works("graph replay", self.spec.host.graph_replay_s)
        number = self.activities
        for recipe in recipes:
            number = self._enqueue(recipe, stream, after)
            after = tuple(distance + 1 for distance in after)
        return number

    def _enqueue(self, recipe: str, stream: int, after: tuple[int, ...]) -> int:
        seconds = self._durations[recipe]
        while len(self._queue) >= self.spec.host.queue_depth:  # the queue is full: the host waits for its head
            self.launcher = max(self.launcher, self._queue.popleft())
            if not self._launch_thread:
                self.main = max(self.main, self.launcher)
        enqueued = self.launcher
        ready = max(enqueued, self.streams.get(stream, 0.0), self.free[COMPUTE], self._end_of(after))
        end = ready + seconds
        self.streams[stream] = self.free[COMPUTE] = end
        self.busy[COMPUTE] += seconds
        self.ports.computed(stream, ready, end, self._hbm_shares[recipe])
        for engine, share in self._shares[recipe]:
            self.engines[engine] += share
        self._inside.place(self._collectives[recipe], ready, end)
        self._queue.append(end)
        if self.observer is not None:
            self.observer.launched(recipe, stream, enqueued, ready, end)
        return self._activity(end)

    def copy(self, direction: str, nbytes: int, pinned: bool, wait: bool, after: tuple[int, ...] = ()) -> int:
        """A copy between host and card, "h2d" or "d2h"; `wait`: the main thread waits for its end. Its number.

        From pageable memory the host first copies into a pinned buffer of its own, and on the way out copies from one.
        """
        self._note("copy", direction, nbytes, pinned, wait, after)
        return self._copy(direction, nbytes, pinned, wait, after)

    def _copy(self, direction: str, nbytes: int, pinned: bool, wait: bool, after: tuple[int, ...] = ()) -> int:
        staging = 0.0 if pinned else nbytes / self.spec.host.staging_bytes_per_s
        line, inward = (COPY_IN, True) if direction == "h2d" else (COPY_OUT, False)
        if inward:
            self._main_works("stage copy", staging)
        enqueued = self.main
        start = max(enqueued, self.free[line], self._end_of(after))
        seconds = transfer_seconds(nbytes, self.spec)
        end = self.free[line] = start + seconds
        self.busy[line] += seconds
        if self.observer is not None:
            self.observer.copied(direction, nbytes, enqueued, start, end)
        if wait:
            self.main = max(self.main, end)
            if not inward:
                self._main_works("stage copy", staging)
        return self._activity(end)

    def _activity(self, end: float) -> int:
        self.activities += 1
        self._ends[self.activities] = end
        self._ends.pop(self.activities - REMEMBERED, None)
        return self.activities

    def _end_of(self, after: tuple[int, ...]) -> float:
        return max((self._ends.get(self.activities + 1 - distance, 0.0) for distance in after), default=0.0)

    def distance(self, number: int) -> int:
        """How many activities ago `number` was, seen from the next one."""
        return self.activities + 1 - number

    # -- waiting --------------------------------------------------------------------------------------------------

    def join(self) -> None:
        """The main thread waits for the launch thread."""
        self._note("join")
        self.main = max(self.main, self.launcher)

    def wait(self) -> None:
        """The main thread waits for everything that the card has to do."""
        self._note("wait")
        self.main = self.now
        self._queue.clear()

    def wait_stream(self, stream: int) -> None:
        """The main thread waits for one stream."""
        self._note("wait_stream", stream)
        self.main = max(self.main, self.launcher, self.streams.get(stream, 0.0))

    def poll(self) -> None:
        """The main thread asks whether something has ended: it takes a moment, so that asking again makes progress."""
        self._note("poll")
        self._main_works("poll", self.spec.host.poll_s)

    def poll_stream(self, stream: int) -> bool:
        """Whether a stream's work has ended, seen from the main thread."""
        self.poll()
        return self.main >= max(self.launcher, self.streams.get(stream, 0.0))

    def poll_mark(self, mark: int) -> bool:
        """Whether a mark was reached, seen from the main thread."""
        self.poll()
        return self.main >= self.moment(mark)

    def mark(self, stream: int = 0) -> int:
        """An event recorded in a stream: the moment at which all that it has so far will have ended. Its number."""
        self._note("mark", stream)
        self._marked += 1
        self._marks[self._marked] = max(self.launcher, self.main, self.streams.get(stream, 0.0))
        return self._marked

    def forget(self, mark: int) -> None:
        """Nobody will ask for that mark again."""
        self._marks.pop(mark, None)

    def moment(self, mark: int) -> float:
        """The moment of a mark, in seconds; 0 and less count from the last one backwards, as the log has them."""
        return self._marks[mark if mark > 0 else self._marked + mark]

    def stream_after(self, stream: int, mark: int) -> None:
        """Work put on `stream` from here on waits for a mark."""
        self._note("stream_after", stream, mark - self._marked)
        self.streams[stream] = max(self.streams.get(stream, 0.0), self.moment(mark))

    def host_after(self, mark: int) -> None:
        """The main thread waits for a mark."""
        self._note("host_after", mark - self._marked)
        self.main = max(self.main, self.moment(mark))

    def fallback(self, out: int, back: int) -> None:
        """An operator ran on the host: its operands are copied out, `out` bytes, and its results back in.

        What it takes on the host is left out.
        """
        self._note("fallback", out, back)
        self.main = max(self.main, self.launcher, *self.streams.values())
        start = self.main
        self._copy("d2h", out, True, True)
        self._copy("h2d", back, True, True)
        if self.observer is not None:
            self.observer.host("cpu fallback", start, self.main, "main")

    def defragment(self, nbytes: int) -> None:
        """The card, when all its work has ended, moves tensors together: each byte is read and written."""
        self._note("defragment", nbytes)
        self.main = max(self.main, self.launcher, *self.streams.values())
        self._main_works("memory defragmentation", 2 * nbytes / self.spec.hbm.bandwidth_bytes_per_s)
        self.launcher = self.main

    # -- collectives ----------------------------------------------------------------------------------------------

    def arrive(
        self,
        operation: str,
        nbytes: int,
        group: str,
        ranks: tuple[int, ...],
        stream: int = 0,
        after: tuple[int, ...] = (),
    ) -> float:
        """The main thread issues a collective, once the launch thread has done what it had. The moment at which this
        card's data is ready for it: `stream` has come so far. `after`: as for a launch, the copies that it reads.
        """
        self._note("arrive", operation, nbytes, group, ranks, stream, after)
        self.main = max(self.main, self.launcher)
        self._main_works("collective", self.spec.host.collective_s)
        return max(self.main, self.streams.get(stream, 0.0), self._end_of(after))

    def arrive_inside(self, operation: str, nbytes: int, group: str, ranks: tuple[int, ...]) -> float:
        """The next collective of the recipes that were launched last. The moment at which this card's data is ready."""
        self._note("arrive_inside", operation, nbytes, group, ranks)
        return self._inside.next()

    def collective(self, transfer: Transfer, stream: int = 0, waits: str = STREAM) -> float:
        """A collective that is over, or known to be over at its end: what waits for it goes on. Seconds for which that
        stood still.

        `waits`: STREAM, what comes on `stream` from here on; HOST, the main thread; INSIDE, the rest of the launch of
        which it is part; NOBODY.
        """
        self._note("collective", transfer.operation, transfer.nbytes, transfer.group, transfer.ranks, stream, waits)
        lost_by_stream = self.ports.carry(transfer)
        self.engines["NIC"] = self.ports.busy
        exposed = 0.0
        if waits == INSIDE:  # what is behind it computes nothing meanwhile
            exposed = self._inside.wait(transfer.end)
            end = self._inside.end
            self.streams[self._inside.stream] = self.free[COMPUTE] = end
            self._ends[self.activities] = end
            self._queue[-1] = end
            if self.observer is not None:
                self.observer.collective(transfer, exposed)
            return exposed
        for late, lost in lost_by_stream.items():
            self.free[COMPUTE] += lost
            self.streams[late] += lost
        if waits != NOBODY:
            reached = max(self.main, self.launcher, self.streams.get(stream, 0.0))
            exposed = max(0.0, transfer.end - reached)
            self.streams[stream] = max(self.streams.get(stream, 0.0), transfer.end)
            if waits == HOST:
                self.main = max(self.main, transfer.end)
        if self.observer is not None:
            self.observer.collective(transfer, exposed)
        return exposed

    def failed(self, operation: str, group: str, ranks: tuple[int, ...]) -> None:
        """The oldest collective of a line that has begun there will not end. It takes no time."""
        self._note("failed", operation, group, ranks)

    def missed(self, operation: str, count: int, group: str, ranks: tuple[int, ...]) -> None:
        """Other cards may take part in the next `count` collectives of a line; this one does not."""
        self._note("missed", operation, count, group, ranks)

    def _note(self, *call: object) -> None:
        if self._log is not None:
            self._log.add(call)
