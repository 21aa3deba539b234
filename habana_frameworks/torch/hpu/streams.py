"""Streams and events in modelled time."""

from __future__ import annotations

from device.streams import (
    Event,
    Stream,
    StreamContext,
    be_the_accelerators,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "be_the_accelerators",
    "current_stream",
    "default_stream",
    "set_stream",
    "stream",
]
