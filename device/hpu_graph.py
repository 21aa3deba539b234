"""A piece of work captured once, and then run again and again at the price of one launch.

A capture runs what it records. Replays work on the same memory: the tensors of the capture are the static inputs and
outputs, which later calls overwrite.
"""

from __future__ import annotations

from typing import Any

from .backend import runtime
from .captured_graph import CapturedGraph
from .streams import Stream, StreamContext, current_stream


class HPUGraph:
    """A captured graph, to be replayed."""

    def __init__(self) -> None:
        self._captured: CapturedGraph | None = None
        self._stream: Stream | None = None

    def capture_begin(self, dry_run: bool = False) -> None:
        """From here to `capture_end`, what runs on the card is kept.

        Raises:
            RuntimeError: not in lazy mode, or a capture is under way.
        """
        runtime.card().capture_begin()
        self._stream = current_stream()

    def capture_end(self) -> None:
        """End of what is kept.

        Raises:
            RuntimeError: no capture is under way, or it began on another stream.
        """
        captured = runtime.card().capture_end()
        if self._stream != current_stream():
            raise RuntimeError(f"the capture began on {self._stream}, not on {current_stream()}; end it there")
        self._captured = captured

    def replay(self, asynchronous: bool = False) -> None:
        """Run it again, on the memory of the capture. The card works while the host goes on; with `asynchronous` the
        host does not even wait for the launch.

        Raises:
            RuntimeError: nothing was captured.
        """
        if self._captured is None:
            raise RuntimeError("this HPUGraph has captured nothing; call capture_begin() and capture_end() first")
        runtime.card().replay(self._captured, wait=not asynchronous)

    def reset(self) -> None:
        """Let go of the captured work and its memory."""
        if self._captured is not None:
            self._captured.clear()
            self._captured = None


class graph:
    """`with graph(g, stream=s):` captures the block into the HPUGraph `g`, on a stream of its own."""

    def __init__(self, hpu_graph: HPUGraph, stream: Stream | None = None, dry_run: bool = False) -> None:
        self._graph = hpu_graph
        self._stream = StreamContext(Stream() if stream is None else stream)
        self._dry_run = dry_run

    def __enter__(self) -> None:
        runtime.card().flush_and_wait("synchronize")
        self._stream.__enter__()
        self._graph.capture_begin(self._dry_run)

    def __exit__(self, kind: type[BaseException] | None, *exception: Any) -> None:
        try:
            if kind is None or runtime.card().is_capturing:
                self._graph.capture_end()
        finally:
            self._stream.__exit__()
