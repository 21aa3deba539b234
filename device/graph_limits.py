"""How many operators a lazy graph takes before it ends by itself.

    PT_HPU_MAX_COMPOUND_OP_SIZE    that many
    PT_HPU_MAX_ACCUM_SIZE          no more than that
    PT_HPU_LAZY_MODE=2             one
    PT_HPU_LAZY_MODE=3             1 to 10, another number for each graph; the same ones in each run

Stage submission (PT_HPU_ENABLE_STAGE_SUBMISSION): after an operator whose result's shape depends on data the host has
waited for the card, which is idle now. So the next graph ends after PT_HPU_MAX_COMPOUND_OP_SIZE_SS operators, the one
after that after twice as many, and so on until the next step mark. What else begins it is told by the bits of
PT_HPU_STAGE_SUBMISSION_MODE (public source of the bridge):

    1   a step mark does not end it        8   a copy to the host begins it
    2   data-dependent shapes begin it     16  the read of a value begins it
    4   a CPU fallback begins it

Operators are counted as recorded: one that PyTorch takes apart counts as its parts.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable

from .environment import NO_LIMIT, flag, limit

RANDOM_MODE = 3
LONGEST_RANDOM = 10


class Stage(enum.IntFlag):
    """Bits of PT_HPU_STAGE_SUBMISSION_MODE."""

    DO_NOT_RESET = 1
    DATA_DEPENDENT = 2
    HOST_FALLBACK = 4
    COPY_TO_HOST = 8
    READ = 16


class GraphLimits:
    """The limit of the current graph. `tell(n)`: the recorder calls back after `n` operators; 0: never.

    Raises:
        ConfigurationError: a variable that is no number.
    """

    def __init__(self, mode: int, max_ops: int, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._most = min(max_ops, limit("PT_HPU_MAX_ACCUM_SIZE", NO_LIMIT))
        self._first_stage = limit("PT_HPU_MAX_COMPOUND_OP_SIZE_SS", 10)
        self._reasons = Stage(limit("PT_HPU_STAGE_SUBMISSION_MODE", Stage.DATA_DEPENDENT) & 31)
        if not flag("PT_HPU_ENABLE_STAGE_SUBMISSION", True) or mode == 2:
            self._reasons = Stage(0)
        self._random = random.Random(0) if mode == RANDOM_MODE else None
        self._staged = False
        self._current = self._most
        self.waits = flag("PT_HPU_MAX_COMPOUND_OP_SYNC", False)
        self._announce(self._next())

    def happened(self, reason: Stage) -> None:
        """Something after which the card is idle."""
        if reason & self._reasons:
            self._staged = True
            self._announce(min(max(self._first_stage, 1), self._most))

    def marked(self) -> None:
        """A step mark is about to end the graph."""
        if Stage.DO_NOT_RESET not in self._reasons:
            self._staged = False

    def flushed(self) -> None:
        """A graph has ended."""
        if self._staged or self._random is not None or self._current != self._most:
            self._announce(self._next())

    def _next(self) -> int:
        if self._random is not None:
            return self._random.randint(1, LONGEST_RANDOM)
        return min(2 * self._current, self._most) if self._staged else self._most

    def _announce(self, operators: int) -> None:
        self._current = operators
        self._tell(operators if operators < 2**31 else 0)
