"""Helpers that scripts import by their module's name."""

from __future__ import annotations

from . import event_dispatcher, internal, profiler

__all__ = ["event_dispatcher", "internal", "profiler"]
