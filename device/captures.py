"""Captures of HPU graphs on one card: where they begin and end, and what their graphs hold between replays."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .buckets import dynamic_shapes
from .captured_graph import CapturedGraph
from .capturing import Capturing
from .errors import HpuError
from .residency import Residency

NEEDS_LAZY_MODE = (
    "HPU graphs are captured in lazy mode only, and this process is in eager mode; set PT_HPU_LAZY_MODE=1 before "
    "habana_frameworks is imported, or use torch.compile(backend='hpu_backend')"
)


class Captures:
    """Those of a card; at most one is under way. `flush` and `flush_and_wait` are the card's."""

    def __init__(
        self,
        capturing: Capturing,
        residency: Residency,
        is_lazy: bool,
        flush: Callable[[str], None],
        flush_and_wait: Callable[[str], None],
    ) -> None:
        self._capturing = capturing
        self._residency = residency
        self._is_lazy = is_lazy
        self._flush = flush
        self._flush_and_wait = flush_and_wait

    def begin(self, dry_run: bool = False) -> None:
        """From here on graphs are kept as well as run; with `dry_run` kept, and run by replays only. Dynamic shapes are
        off from now on.

        Raises:
            HpuError: not in lazy mode, or a capture is under way.
        """
        if not self._is_lazy:
            raise HpuError(NEEDS_LAZY_MODE)
        self._capturing.refuse_second()
        self._flush_and_wait("capture_begin")
        self._capturing.begin(dry_run)
        dynamic_shapes.close()

    def end(self) -> CapturedGraph:
        """What was recorded since `begin`.

        Raises:
            HpuError: no capture is under way, or it was given up because of something that cannot be captured.
        """
        self._capturing.current()
        self._flush("capture_end")
        captured = self._capturing.end()
        self._flush_and_wait("capture_end")
        return captured

    def abandon(self) -> None:
        """The capture that is under way, if any, is not wanted any more."""
        self._capturing.give_up("it was abandoned")

    def release_all_but(self, captured: CapturedGraph, kept: set[int]) -> None:
        """What a captured graph makes holds memory during its replays only, but for the storages at `kept`."""
        self._residency.set_aside(captured.release_all_but(kept))

    def uncount(self, nbytes: Mapping[int, int]) -> None:
        """The storages at those addresses, with their bytes, stand for others' memory and hold none of their own."""
        self._residency.set_aside([(address, size, -1) for address, size in nbytes.items()])
