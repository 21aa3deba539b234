"""Recipes by signature, the least recently used leave first."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Entry = TypeVar("Entry")

SMALLEST = 3  # the real bridge's lower limit of HABANA_PGM_LRU_MAX


class RecipeCache(Generic[Entry]):
    """An LRU map from signature to entry that counts its hits and misses.

    Threads that share a card may use it at once: what one looks at, another may add to or take from.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = max(capacity, SMALLEST)
        self.hits = 0
        self.misses = 0
        self._entries: OrderedDict[str, Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, signature: str) -> bool:
        return signature in self._entries

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def get(self, signature: str) -> Entry | None:
        """The entry, which becomes the most recently used, or None. Counts a hit or a miss."""
        entry = self._entries.get(signature)
        if entry is None:
            self.misses += 1
            return None
        self.hits += 1
        self._touch(signature)
        return entry

    def put(self, signature: str, entry: Entry) -> None:
        """Add an entry; the least recently used leaves where the cache is full."""
        self._entries[signature] = entry
        self._touch(signature)
        if len(self._entries) > self.capacity:
            self._entries.popitem(last=False)

    def _touch(self, signature: str) -> None:
        with contextlib.suppress(KeyError):  # another thread's entry has just taken its place
            self._entries.move_to_end(signature)

    def latest(self) -> Entry:
        """The most recently used entry.

        Raises:
            LookupError: the cache is empty.
        """
        if not self._entries:
            raise LookupError("the recipe cache is empty")
        return next(reversed(self._entries.values()))

    def drop(self, condition: Callable[[Entry], bool]) -> None:
        """Forget the entries for which the condition holds."""
        for signature in [signature for signature, entry in list(self._entries.items()) if condition(entry)]:
            self._entries.pop(signature, None)

    def clear(self) -> None:
        self._entries.clear()
