"""Helpers that scripts import by their module's name."""

from __future__ import annotations

from . import (
    debug,
    distributed_utils,
    event_dispatcher,
    experimental,
    internal,
    lib_utils,
    library_loader,
    profiler,
)

__all__ = [
    "debug",
    "distributed_utils",
    "event_dispatcher",
    "experimental",
    "internal",
    "lib_utils",
    "library_loader",
    "profiler",
]
