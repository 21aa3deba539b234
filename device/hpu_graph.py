"""A piece of work captured once, and then run again and again at the price of one launch.

A capture runs what it records, but for a dry one. Replays work on the same memory: the tensors of the capture are the
static inputs and outputs, which later calls overwrite; inputs that were marked are replaced by those of each replay.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import torch

from . import strict
from .backend import runtime
from .captured_graph import CapturedGraph
from .captures import NEEDS_LAZY_MODE
from .card import current_card
from .errors import HpuError
from .lent_inputs import LentInputs, run_with
from .streams import Stream, StreamContext, current_stream

_capturing: tuple[int, Stream] | None = None  # id() of the HPUGraph whose capture is under way, and where it began


def is_current_stream_capturing() -> bool:
    """Whether a capture is under way on the current stream."""
    card = current_card()
    return card is not None and card.is_capturing and _capturing is not None and _capturing[1] == current_stream()


class HPUGraph:
    """A captured graph, to be replayed.

    Raises:
        RuntimeError: not in lazy mode.
    """

    def __init__(self) -> None:
        if not runtime.settings().lazy:
            raise HpuError(NEEDS_LAZY_MODE)
        self._captured: CapturedGraph | None = None
        self._inputs = LentInputs()
        self._random_state: torch.Tensor | None = None
        self._has_begun = False

    # -- capture --------------------------------------------------------------------------------------------------

    def capture_begin(self, dry_run: bool = False) -> None:
        """From here to `capture_end`, what is recorded for the card is kept. It runs as well, but for a `dry_run`:
        there it only runs in replays, and random numbers are drawn by these alone. What was captured before is let go.

        Raises:
            RuntimeError: a capture is under way.
        """
        global _capturing
        card = runtime.card()
        inputs = LentInputs()
        card.captures.begin(dry_run)
        _capturing = None  # one that was given up may have had an object here before
        self.reset()
        self._inputs = inputs
        self._has_begun = True
        self._random_state = runtime.bridge().default_generator().get_state() if dry_run else None
        _capturing = (id(self), current_stream())

    def capture_end(self) -> None:
        """End of what is kept.

        Raises:
            RuntimeError: no capture is under way, or it was given up, or it began on another stream.
        """
        global _capturing
        card = runtime.card()
        if card.is_capturing and _capturing is not None:
            owner, stream = _capturing
            if owner != id(self):
                raise HpuError("the capture that is under way is another HPUGraph's; end it there")
            if stream != current_stream():
                self.reset()
                raise HpuError(f"the capture began on {stream}, not on {current_stream()}; end it there")
        try:
            captured = card.captures.end()
        finally:
            _capturing = None
            self._give_back()
        self._captured = captured
        self._inputs.captured(captured)

    def mark_user_inputs(self, static_tlist: Sequence[torch.Tensor]) -> None:
        """During a capture, before they are used: each replay may be given other tensors in place of these, and they
        are not kept.

        Raises:
            RuntimeError: no capture of this graph is under way.
        """
        if not self._is_capturing():
            raise HpuError("mark_user_inputs() belongs between capture_begin() and capture_end()")
        self._inputs.mark(static_tlist)

    def mark_user_outputs(self, static_tlist: Sequence[torch.Tensor]) -> None:
        """After a capture: of all that the graph makes, only these tensors keep their memory between replays.

        Raises:
            RuntimeError: nothing was captured, or it was called before.
        """
        captured = self._captured_or_raise("mark_user_outputs()")
        if captured.releases:
            raise HpuError("mark_user_outputs() was called before for this capture; give all outputs at once")
        kept = {tensor.untyped_storage().data_ptr() for tensor in static_tlist if tensor.device.type == "hpu"}
        self._inputs.returned(static_tlist)
        runtime.card().captures.release_all_but(captured, kept)

    def get_user_input_match_indices(self) -> set[int]:
        """Which of the marked inputs the graph reads directly, by their number: those that a replay replaces."""
        return self._inputs.indices

    # -- replay ---------------------------------------------------------------------------------------------------

    def replay(self, asynchronous: bool = False) -> None:
        """Run it again, on the memory of the capture. The card works while the host goes on; with `asynchronous` the
        host does not even wait for the launch. Before any capture it does nothing, and a note says so once.

        Raises:
            RuntimeError: the capture was given up or let go; with HPUCLUSTER_STRICT=1 also before any capture.
        """
        captured = self._to_replay("replay()")
        if captured is not None:
            runtime.card().replay(captured, wait=not asynchronous)

    def replayV2(
        self, static_tlist: Sequence[torch.Tensor], tlist: Sequence[torch.Tensor], asynchronous: bool = False
    ) -> None:
        """Replay with the tensors `tlist` in place of `static_tlist`, of the capture: as many, of the same sizes.

        Raises:
            RuntimeError: as `replay`; not one for each, or other sizes.
        """
        captured = self._to_replay("replayV2()")
        if captured is not None:
            run_with(captured, static_tlist, tlist, lambda: runtime.card().replay(captured, wait=not asynchronous))

    def replayV3(self, tlist: Sequence[torch.Tensor], asynchronous: bool = False) -> None:
        """Replay with the tensors `tlist` in place of those that were marked as inputs, in the same order.

        Raises:
            RuntimeError: as `replay`; fewer tensors than were marked, or other sizes.
        """
        captured = self._to_replay("replayV3()")
        if captured is not None:
            self._inputs.run(captured, tlist, lambda: runtime.card().replay(captured, wait=not asynchronous))

    def clear_inputs(self) -> None:
        """Let go of inputs that the last replay was given and wrote to; whoever gave them has their values."""
        if self._captured is not None:
            self._captured.lent.clear()

    def reset(self) -> None:
        """Let go of the captured work and its memory; a capture of this graph that is under way is abandoned."""
        global _capturing
        if self._is_capturing():
            runtime.card().captures.abandon()
            _capturing = None
        if self._captured is not None:
            self._captured.clear()
            self._captured = None
        self._give_back()
        self._inputs = LentInputs()

    def __del__(self) -> None:
        if hasattr(self, "_inputs"):
            self.reset()

    # -- inside ---------------------------------------------------------------------------------------------------

    def _is_capturing(self) -> bool:
        card = current_card()
        return card is not None and card.is_capturing and _capturing is not None and _capturing[0] == id(self)

    def _give_back(self) -> None:
        """After a capture: marked inputs have their memory again, and the generator its state."""
        self._inputs.restore()
        if self._random_state is not None:
            runtime.bridge().default_generator().set_state(self._random_state)
            self._random_state = None

    def _captured_or_raise(self, call: str) -> CapturedGraph:
        if self._captured is None:
            why = "its capture was given up, or reset() let go of it" if self._has_begun else "no capture was begun"
            raise HpuError(
                f"this HPUGraph has captured nothing ({why}); call capture_begin() and capture_end() before {call}"
            )
        return self._captured

    def _to_replay(self, call: str) -> CapturedGraph | None:
        """What `call` is to run. On the card a replay before any capture is nothing, and programs rely on it."""
        if self._captured is None and not self._has_begun:
            strict.note(
                "replay before capture",
                f"{call} of an HPUGraph that has captured nothing does nothing; call capture_begin() and capture_end() "
                "before it",
            )
            return None
        return self._captured_or_raise(call)


class graph:
    """`with graph(g, stream=s):` captures the block into the HPUGraph `g`, on a stream of its own.

    Before it, the card finishes what it has. A block that raises is not captured.

    Raises:
        RuntimeError: not in lazy mode.
    """

    default_capture_stream: Stream | None = None

    def __init__(self, hpu_graph: HPUGraph, stream: Stream | None = None, dry_run: bool = False) -> None:
        if not runtime.settings().lazy:
            raise HpuError(NEEDS_LAZY_MODE)
        if stream is None:
            if graph.default_capture_stream is None:
                graph.default_capture_stream = Stream()
            stream = graph.default_capture_stream
        self._graph = hpu_graph
        self._stream = StreamContext(stream)
        self._dry_run = dry_run

    def __enter__(self) -> None:
        runtime.card().flush_and_wait("synchronize")
        gc.collect()
        self._stream.__enter__()
        try:
            self._graph.capture_begin(self._dry_run)
        except BaseException:
            self._stream.__exit__()
            raise

    def __exit__(self, kind: type[BaseException] | None, *exception: Any) -> None:
        try:
            if kind is None:
                self._graph.capture_end()
            else:
                self._graph.reset()
        finally:
            self._stream.__exit__()
