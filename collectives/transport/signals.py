"""Counters in shared memory by which ranks tell each other how far they are.

Each counter has one writer and only grows, so nothing needs an atomic read-modify-write. A waiter first gives
up the processor a few times (ranks outnumber cores, so whoever is late probably just wants to run), then
sleeps in the kernel until the writer wakes it.
"""

from __future__ import annotations

from collections.abc import Callable

from . import futex
from .shared_memory import Segment

LINE_BYTES = 64
_LINE_WORDS = LINE_BYTES // 8
_YIELDS = 100
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

    def wait(self, counter: int, target: int, on_delay: OnDelay) -> None:
        """Return when a counter is at least `target`.

        While that takes long, `on_delay(missing)` is called about 20 times a second; `missing()` is not empty while
        the counter is still below, and `on_delay` may raise to end the wait.
        """
        index = counter * _LINE_WORDS
        self._sleep(counter, target, on_delay, lambda: [counter] if self._words[index] < target else [])

    def barrier(self, own: int, members: int, step: int, on_delay: OnDelay) -> None:
        """Return when the first `members` counters, of which `own` is ours, are at least `step`.

        Counter number `members` says which step everyone has reached. Whoever finds that it came last raises it, so
        the others sleep and wake once. (Two may both find so and write the same value.) `on_delay` is as for `wait`,
        with the counters that are missing.
        """
        words = self._words
        ends = range(0, members * _LINE_WORDS, _LINE_WORDS)

        def missing() -> list[int]:
            return [index // _LINE_WORDS for index in ends if words[index] < step]

        self.post(own, step)  # its system call keeps the reads below behind the write
        for index in ends:
            if words[index] < step:
                break
        else:
            self.post(members, step)
            return
        self._sleep(members, step, on_delay, missing)

    def _sleep(self, counter: int, target: int, on_delay: OnDelay, missing: Callable[[], list[int]]) -> None:
        words, index, address = self._words, counter * _LINE_WORDS, self._address + counter * LINE_BYTES
        for _ in range(_YIELDS):
            if words[index] >= target:
                break
            futex.yield_cpu()
        while (seen := words[index]) < target:
            futex.wait(address, seen, _SLICE)
            if words[index] == seen:
                if not missing():
                    break  # whoever had to say so is gone
                on_delay(missing)
        futex.order_stores()
