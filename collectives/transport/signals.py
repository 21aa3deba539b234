"""Counters in shared memory by which ranks tell each other how far they are.

Each counter has one writer and only grows, so nothing needs an atomic read-modify-write. A waiter first gives
up the processor a few times (ranks outnumber cores, so whoever is late probably just wants to run), then
sleeps in the kernel until the writer wakes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import futex
from .shared_memory import Segment

LINE_BYTES = 64
_LINE_WORDS = LINE_BYTES // 8
_YIELDS = 24
_SLICE = futex.Timeout(0.05)

OnDelay = Callable[[Callable[[], list[int]]], None]
"""Called with a function that tells which counters are still missing."""


class Signals:
    """`count` counters at byte `offset` of a segment, one cache line each."""

    def __init__(self, segment: Segment, offset: int, count: int) -> None:
        memory = segment.memory[offset : offset + count * LINE_BYTES].data
        self._words = memory.cast("Q")
        self._address = segment.address + offset

    def value(self, counter: int) -> int:
        return self._words[counter * _LINE_WORDS]

    def post(self, counter: int, value: int) -> None:
        """Raise a counter of our own to `value`; everything written before is visible to whoever sees it."""
        futex.order_stores()
        self._words[counter * _LINE_WORDS] = value
        futex.wake(self._address + counter * LINE_BYTES)

    def wait(self, counters: Sequence[int], target: int, on_delay: OnDelay) -> None:
        """Return when every counter is at least `target`.

        While that takes long, `on_delay(missing)` is called about 20 times a second; `missing()` lists the
        counters that are still below, and `on_delay` may raise to end the wait.
        """
        words, yields = self._words, _YIELDS
        for counter in counters:
            index = counter * _LINE_WORDS
            while (seen := words[index]) < target:
                if yields > 0:
                    yields -= 1
                    futex.yield_cpu()
                    continue
                futex.wait(self._address + counter * LINE_BYTES, seen, _SLICE)
                if words[index] == seen:
                    on_delay(lambda: [other for other in counters if words[other * _LINE_WORDS] < target])
        futex.order_stores()
