"""Which standard streams a rank gets: the driver's own where it is the only one, else prefixed pipes."""

from __future__ import annotations

import os

from .streams import STDERR, STDIN, STDOUT, StreamPump


class Outlets:
    """Hands out the ranks' standard streams.

    A single rank writes to the driver's own output and error, so that a terminal is a terminal for it. Of
    several, each line comes with `[rank N] ` in front.
    """

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._pump = StreamPump()
        if ranks > 1:
            self._pump.start()

    def descriptors(self, rank: int) -> tuple[int, int, int]:
        """New descriptors of the rank's standard input, output and error. The caller closes them."""
        if self._ranks == 1:
            return _own_input(), _duplicate(STDOUT), _duplicate(STDERR)
        prefix = f"[rank {rank}] "
        return _null(), self._pump.open_pipe(prefix, STDOUT), self._pump.open_pipe(prefix, STDERR)

    @property
    def broken(self) -> bool:
        """True where nobody reads the driver's output any more."""
        return self._pump.broken.is_set()

    def finish(self) -> None:
        """Pass on all output that is left."""
        self._pump.finish()


def _own_input() -> int:
    """The driver's input; not a terminal, which the rank, in a process group of its own, could not read."""
    try:
        return _null() if os.isatty(STDIN) else os.dup(STDIN)
    except OSError:
        return _null()


def _duplicate(descriptor: int) -> int:
    try:
        return os.dup(descriptor)
    except OSError:  # closed by whoever started the driver
        return _null()


def _null() -> int:
    return os.open(os.devnull, os.O_RDWR)
