"""`MediaPipe`, the base class of users' pipelines."""

from __future__ import annotations

from .unavailable import Unavailable


class MediaPipe(Unavailable):
    """A graph of media operators. Making one raises `NotImplementedError`."""
