"""Which mode the process runs in, and helpers of the bridge's own Python."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any

from device.backend import runtime

_logger = logging.getLogger(__name__)


def is_lazy() -> bool:
    """Whether lazy mode was chosen when the bridge was imported; a later change of the variable has no effect."""
    return runtime.settings().lazy


def lazy_only(func: Callable[..., Any]) -> Callable[..., None]:
    """`func` in lazy mode; outside it a function that does nothing. That is logged now, once."""
    if is_lazy():

        @functools.wraps(func)
        def in_lazy_mode(*args: Any, **kwargs: Any) -> None:
            func(*args, **kwargs)

        return in_lazy_mode
    _logger.warning(
        f"Calling {func.__name__} function does not have any effect. It's lazy mode only functionality. "
        "(warning logged once)"
    )

    @functools.wraps(func)
    def without_effect(*args: Any, **kwargs: Any) -> None:
        return None

    return without_effect


class Timer:
    """Seconds of this machine's clock that a block took: `with Timer() as t: ...; t.elapsed`."""

    def __init__(self) -> None:
        self.start_t: float | None = None
        self.end_t: float | None = None

    def __enter__(self) -> Timer:
        self.start_t = perf_counter()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.end_t = perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds between entering and leaving.

        Raises:
            RuntimeError: the block has not ended.
        """
        if self.start_t is None or self.end_t is None:
            raise RuntimeError("the block that this Timer measures has not ended; ask after it")
        return self.end_t - self.start_t
