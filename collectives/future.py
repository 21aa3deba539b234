"""The future of a collective: what a communication hook chains its own steps to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

Callback = Callable[[torch.futures.Future], Any]


class CollectiveFuture(torch.futures.Future):
    """A future whose callbacks run in the thread that adds them, when the collective is over.

    A callback computes on the card and may issue the next collective. In the background thread it would record
    operators between those of the script, and the order of collectives would be another one on every rank.

    `finished` is set when the collective is over and the future has its value.
    """

    def __init__(self, finished: threading.Event) -> None:
        super().__init__()
        self._finished = finished

    def then(self, callback: Callback) -> torch.futures.Future:
        """`callback(future)` now, waiting for the collective; a future of what it returns."""
        self._finished.wait()
        return super().then(callback)

    def add_done_callback(self, callback: Callback) -> None:
        """`callback(future)` now, waiting for the collective."""
        self._finished.wait()
        super().add_done_callback(callback)
