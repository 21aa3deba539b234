"""Counters in shared memory by which two ranks tell each other how far they are (`csrc/waiting.h`).

Each has one writer and only grows. A waiter first gives up the processor for a moment, then sleeps in the kernel until
the writer wakes it.
"""

from __future__ import annotations

from collections.abc import Callable

from . import native
from .shared_memory import Segment

LINE_BYTES = 64

OnDelay = Callable[[Callable[[], list[int]]], None]
"""Called with a function that tells which counters are still missing."""


class Signals:
    """`count` counters at byte `offset` of a segment, one cache line each."""

    def __init__(self, segment: Segment, offset: int, count: int) -> None:
        self._segment = segment  # keeps the memory
        self._words = segment.memory[offset : offset + count * LINE_BYTES].data.cast("Q")
        self._address = segment.address + offset
        self._library = native.library()
        self._looks = native.looks(2)

    def value(self, counter: int) -> int:
        return self._words[counter * LINE_BYTES // 8]

    def post(self, counter: int, value: int) -> None:
        """Raise a counter of our own to `value`; everything written before is visible to whoever sees it."""
        self._library.hccl_post(self._address + counter * LINE_BYTES, value)

    def wait(self, counter: int, target: int, on_delay: OnDelay) -> None:
        """Return when a counter is at least `target`.

        While that takes long, `on_delay(missing)` is called about 20 times a second; `missing()` is not empty while
        the counter is still below, and `on_delay` may raise to end the wait.
        """
        address = self._address + counter * LINE_BYTES
        while self._library.hccl_wait(address, target, self._looks) != native.DONE:
            on_delay(lambda: [counter] if self.value(counter) < target else [])
