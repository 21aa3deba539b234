"""Ends of a training step in lazy mode. In eager mode these do nothing, and say so once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from device.card import current_card

from ..utils.internal import is_lazy, lazy_only

_closures: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []


@lazy_only
def add_step_closure(closure: Callable[..., Any], args: tuple[Any, ...] = ()) -> None:
    """Call `closure(*args)` after the next step mark."""
    _closures.append((closure, args))


@lazy_only
def mark_step(device_str: str = "", sync: bool = False) -> None:
    """End the current graph and launch it; with `sync` wait for the launch on the host."""
    _mark(sync)


@lazy_only
def iter_mark_step(device_str: str = "") -> None:
    """`mark_step` that also marks the end of an iteration."""
    _mark(False)


def _mark(wait: bool) -> None:
    card = current_card()
    if card is not None:
        card.mark_step(wait=wait)
    _run_step_closures()


def _run_step_closures() -> None:
    pending, _closures[:] = list(_closures), []
    for closure, arguments in pending:
        closure(*arguments)


def _mark_step_if_lazy(device_str: str = "") -> None:
    """`mark_step` in lazy mode, nothing outside it."""
    if is_lazy():
        mark_step(device_str)
