"""Events of the card for listeners of the script's own."""

from __future__ import annotations

from device import events
from device.events import EventId

__all__ = ["EventDispatcher", "EventId"]


class EventDispatcher(events.EventDispatcher):
    """`EventDispatcher.instance()` is the process's one dispatcher."""

    @staticmethod
    def instance() -> events.EventDispatcher:
        return events.dispatcher
