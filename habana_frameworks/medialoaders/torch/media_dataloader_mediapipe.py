"""`HPUMediaPipe`, which chooses a pipeline by the card."""

from __future__ import annotations

from ...mediapipe.unavailable import Unavailable

__all__ = ["HPUMediaPipe"]


class HPUMediaPipe(Unavailable):
    """A pipeline for a data set. Making one raises `NotImplementedError`."""
