"""What happens on a card, told to whoever listens: compilations, cache hits, fallbacks, step marks.

The names and parameters are those of the real bridge's event dispatcher.
"""

from __future__ import annotations

import enum
import itertools
import time
from collections.abc import Callable
from typing import Any

Listener = Callable[[float, dict[str, Any]], None]


class EventId(enum.Enum):
    """Kinds of event."""

    GRAPH_COMPILATION = 0
    CPU_FALLBACK = 1
    CACHE_HIT = 2
    CACHE_MISS = 3
    MEMORY_DEFRAGMENTATION = 4
    MARK_STEP = 5
    PROCESS_EXIT = 6
    DEVICE_ACQUIRED = 7
    CUSTOM_EVENT = 8


class EventDispatcher:
    """Delivers events to the listeners of their kind, in the order in which these subscribed."""

    def __init__(self) -> None:
        self._listeners: dict[EventId, dict[int, Listener]] = {kind: {} for kind in EventId}
        self._handles = itertools.count(1)

    def subscribe(self, kind: EventId, listener: Listener) -> int:
        """Call `listener(timestamp, parameters)` at each event of `kind`; returns a handle for `unsubscribe`."""
        handle = next(self._handles)
        self._listeners[kind][handle] = listener
        return handle

    def unsubscribe(self, handle: int) -> None:
        """Stop a subscription; an unknown handle is ignored."""
        for listeners in self._listeners.values():
            listeners.pop(handle, None)

    def publish(self, kind: EventId, parameters: dict[str, Any] | None = None) -> None:
        """Deliver one event now."""
        listeners = self._listeners[kind]
        if not listeners:
            return
        stamp = time.time()
        for listener in list(listeners.values()):
            listener(stamp, parameters or {})


dispatcher = EventDispatcher()
