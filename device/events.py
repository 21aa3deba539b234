"""What happens on a card, told to whoever listens: compilations, cache hits, fallbacks, step marks.

The names and parameters are those of the real bridge's event dispatcher. Releases up to 1.19 call the listener at once;
later ones keep what happens until the subscriber asks (`process`). Both work here, whatever the release.
"""

from __future__ import annotations

import enum
import itertools
import time
from collections import deque
from collections.abc import Callable
from typing import Any

Listener = Callable[[float, dict[str, Any]], None]

KEPT = 100_000
"""Events kept for a subscriber that asks for them; older ones are dropped."""


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
        self._queues: dict[int, deque[dict[str, Any]]] = {}
        self._handles = itertools.count(1)

    def subscribe(self, kind: EventId, listener: Listener | None = None) -> int:
        """Call `listener(timestamp, parameters)` at each event of `kind`; without a listener keep the last ones for
        `process`. Returns a handle for `unsubscribe`.

        Raises:
            TypeError: `kind` is no `EventId`.
        """
        if not isinstance(kind, EventId):
            raise TypeError(f"{kind!r} is no EventId; use one such as EventId.GRAPH_COMPILATION")
        handle = next(self._handles)
        if listener is None:
            queue: deque[dict[str, Any]] = deque(maxlen=KEPT)
            self._queues[handle] = queue
            self._listeners[kind][handle] = lambda stamp, parameters: queue.append(parameters)
        else:
            self._listeners[kind][handle] = listener
        return handle

    def process(self, handle: int, listener: Callable[[dict[str, Any]], None]) -> None:
        """Call `listener(parameters)` for each event since the last time that was asked.

        Raises:
            ValueError: the handle is not one of a subscription without a listener.
        """
        queue = self._queues.get(handle)
        if queue is None:
            raise ValueError(
                f"{handle!r} is no handle of a subscription without a listener; subscribe(EventId) gives one"
            )
        while queue:
            listener(queue.popleft())

    def unsubscribe(self, handle: int) -> None:
        """Stop a subscription; an unknown handle is ignored."""
        self._queues.pop(handle, None)
        for listeners in self._listeners.values():
            listeners.pop(handle, None)

    def unsubscribe_all(self) -> None:
        """Stop every subscription."""
        self._queues.clear()
        for listeners in self._listeners.values():
            listeners.clear()

    def publish(self, kind: EventId, parameters: dict[str, Any] | None = None) -> None:
        """Deliver one event now."""
        listeners = self._listeners[kind]
        if not listeners:
            return
        stamp = time.time()
        for listener in list(listeners.values()):
            listener(stamp, parameters or {})


dispatcher = EventDispatcher()
