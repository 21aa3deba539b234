"""`MediaPipe`, the base class of pipelines."""

from __future__ import annotations

from .._unavailable import kind
from ._refusal import ALTERNATIVE, FEATURE

MediaPipe = kind("MediaPipe", FEATURE, ALTERNATIVE)

__all__ = ["MediaPipe"]
