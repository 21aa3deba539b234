"""Ends of a training step in lazy mode. In eager mode these do nothing, and say so once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from device.backend import runtime
from device.card import current_card

_logger = logging.getLogger(__name__)
_closures: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []


def _warn_without_lazy_mode() -> None:
    for name in ("mark_step", "iter_mark_step", "add_step_closure"):
        _logger.warning(
            f"Calling {name} function does not have any effect. It's lazy mode only functionality. "
            "(warning logged once)"
        )


def mark_step(device_str: str = "", sync: bool = False) -> None:
    """End the current graph and launch it; with `sync` wait for the launch on the host."""
    if not runtime.settings().lazy:
        return
    card = current_card()
    if card is not None:
        card.mark_step(wait=sync)
    pending, _closures[:] = list(_closures), []
    for closure, arguments in pending:
        closure(*arguments)


def iter_mark_step(device_str: str = "") -> None:
    """`mark_step` that also marks the end of an iteration."""
    mark_step(device_str)


def add_step_closure(closure: Callable[..., Any], args: tuple[Any, ...] = ()) -> None:
    """Call `closure(*args)` after the next step mark."""
    if runtime.settings().lazy:
        _closures.append((closure, args))


if not runtime.settings().lazy:
    _warn_without_lazy_mode()
