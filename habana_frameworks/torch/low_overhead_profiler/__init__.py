"""The profiler for long runs."""

from __future__ import annotations

from . import profiler

__all__ = ["profiler"]
