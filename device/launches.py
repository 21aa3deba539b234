"""How a graph that has ended gets onto the card: its recipe, room in memory, its place on the timeline, its numbers.

`Card` decides when a graph ends; this brings it, a copy, a replay or a single operator to recipes, residency, timeline
and bridge, in the one order in which they may learn of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import flags
from .captured_graph import CapturedGraph
from .capturing import Capturing
from .constants import constants
from .events import dispatcher
from .executor import LoadedRecipe
from .fences import Fences
from .graph.location import locate
from .in_flight import InFlight
from .recipes import Origin, Recipes
from .residency import Residency
from .timeline import Timeline


class Launches:
    """What one card is given to do."""

    def __init__(
        self, timeline: Timeline, recipes: Recipes, residency: Residency, fences: Fences, capturing: Capturing
    ) -> None:
        self.in_flight = InFlight(timeline)
        self._timeline = timeline
        self._recipes = recipes
        self._residency = residency
        self._fences = fences
        self._capturing = capturing

    def graph(self, recording: Any, reason: str, stream: int, origin: Origin | None = None) -> None:
        """Run a graph that has ended; keep it, too, where a capture is under way.

        Raises:
            torch.OutOfMemoryError: it does not fit.
            HpuError: it cannot be compiled, or a collective that it waits for failed.
        """
        self._recipes.publish()  # the one launch thread finishes what it had before it takes more
        self._await_collectives(recording)
        try:
            self._timeline.hand_over()
            loaded, event = self._recipes.of_graph(recording, origin)
            recipe = loaded.recipe
            captured = self._capturing.graph
            if captured is not None and captured.dry_run:
                self._keep_for_replay(captured, loaded, recording)
                return
            self._residency.reserve(reason, recording, recipe.name, recipe.workspace_bytes, loaded.graph)
        except BaseException as error:
            self._capturing.give_up(f"a graph in it did not run ({error})")
            self._residency.abandon()
            _lose(recording, error)
            raise
        used = constants.used_by(recording)
        if flags.get("PT_COMPILE_ONLY_MODE"):
            recording.abandon()
        else:
            number = self._timeline.launch(recipe.name, stream, self.in_flight.before_launch(recording))
            self.in_flight.launched(recording.epoch, number)
            if loaded.admission is not None:
                self._recipes.ran(loaded, loaded.admission)
            loaded.run(recording)
        if captured is not None:
            captured.add(loaded, recording)
        else:
            constants.write(used)
        # Told last: a listener may use the card, which waits until this graph has run.
        dispatcher.publish(event, {"recipe_id": recipe.signature[:16]})

    def _keep_for_replay(self, captured: CapturedGraph, loaded: LoadedRecipe, recording: Any) -> None:
        """A graph of a dry capture has ended: it is compiled, but neither runs nor gets memory."""
        captured.add(loaded, recording)
        self._residency.abandon()
        recording.abandon()

    def operator(self, recording: Any, stream: int) -> None:
        """Run a graph of one operator, in eager mode."""
        self._await_collectives(recording)
        try:
            kernel = self._recipes.of_operator(recording)
            self._residency.reserve(kernel.name, recording, kernel.name, 0, kernel.graph)
        except BaseException as error:
            self._residency.abandon()
            _lose(recording, error)
            raise
        number = self._timeline.eager(kernel.name, stream, self.in_flight.before_launch(recording))
        self.in_flight.launched(recording.epoch, number)
        kernel.executable.run(recording)

    def _await_collectives(self, recording: Any) -> None:
        """Those whose memory a graph uses that is about to run."""
        try:
            self._fences.before_graph(recording)
        except BaseException as error:
            _lose(recording, error)
            raise

    def immediate(self, operator: str, key: str, read: int, written: int, stream: int) -> None:
        """An operator whose result's shape depends on data has run; the host waits for it."""
        self._timeline.launch(self._recipes.of_immediate(operator, key, read, written), stream)
        self._timeline.wait()

    def copy(self, direction: str, nbytes: int, pinned: bool, non_blocking: bool, address: int, epoch: int) -> None:
        """A copy between host and card.

        The host goes on at once only where that was asked for and, on the way out, the host's memory is pinned.
        """
        inward = direction == "h2d"
        wait = not non_blocking or not (inward or pinned)
        after = self.in_flight.before_copy(address, epoch)
        number = self._timeline.copy(direction, nbytes, pinned, wait, after)
        if inward and not wait:
            self.in_flight.copied(address, number)

    def make_room_for_copy(self, address: int, dtype: str, sizes: tuple[int, ...]) -> None:
        """The storage that a copy to the card fills, known by the source line.

        Raises:
            torch.OutOfMemoryError: it does not fit.
        """
        self._residency.reserve("copy to the card")
        self._residency.memory.copied(address, dtype, sizes, locate())

    def replay(self, captured: CapturedGraph, stream: int, stepped: Callable[[], None]) -> None:
        """Run a captured graph again, at the price of one launch; `stepped` for each optimizer's step in it."""
        self._fences.before_replay(captured)
        self._timeline.hand_over()
        self._residency.reserve_for_replay(captured)
        after = self.in_flight.before_replay(captured)
        self.in_flight.replayed(captured, self._timeline.replay(captured.recipes, stream, after))
        captured.run()
        for _ in range(captured.steps):
            stepped()


def _lose(recording: Any, error: BaseException) -> None:
    """A graph has failed before it ran: what it should have made has no value, and `error` says why."""
    recording.abandon(str(error) or type(error).__name__)
