"""What is known about storages apart from their memory: categories told or learned, and what was copied to them."""

from __future__ import annotations

from typing import Any

from .holding import COPIES, Copied

MAX_NOTES = 1 << 16  # about addresses that may never become resident


class Notes:
    """Notes of one card. `learn`: graphs repeat, so that it is enough to be told once what an output is for."""

    def __init__(self, learn: bool) -> None:
        self.learn = learn
        self.early: dict[int, int] = {}  # categories by address, told before it is resident
        self.copies: dict[int, Copied] = {}  # by address
        self.origins: dict[str, dict[int, int]] = {}  # categories by graph and slot

    def of(self, origin: str) -> dict[int, int]:
        """The categories of a graph's outputs that are known, by slot."""
        known = self.origins.get(origin)
        if known is None:
            known = self.origins[origin] = {}
        return known

    def remember(self, origin: str, slot: int, category: int) -> None:
        """An output of that graph was told to be of that category."""
        if self.learn and slot >= 0 and origin != COPIES:
            self.of(origin)[slot] = category

    def told(self, address: int, category: int) -> None:
        """A storage that is not resident yet is of that category."""
        self.early[address] = category
        _bound(self.early)

    def copied(self, address: int, copy: Copied) -> None:
        """The host copied something to that address."""
        self.copies[address] = copy
        _bound(self.copies)


def _bound(notes: dict[int, Any]) -> None:
    """Forget the older half of too many."""
    if len(notes) > MAX_NOTES:
        for address in list(notes)[: MAX_NOTES // 2]:
            del notes[address]
