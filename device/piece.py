"""A piece of a compiled program while a card records it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Piece:
    """A piece that is being recorded, by which thread.

    `whole`: it is in one graph so far; a read of a value, or another thread that uses the card, would have cut it.
    `recording`: None until its end, and of a piece that computes nothing.
    """

    thread: int
    whole: bool = True
    recording: Any = None
