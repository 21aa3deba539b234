"""What streams and events ask of the card's timeline, with all that the card has recorded handed to it first.

Two kinds ask: `torch.hpu.Stream` and `torch.hpu.Event` (`streams.py`), and PyTorch's own (`torch.Stream("hpu")`,
`torch.Event("hpu")`), whose device guard the native bridge answers with the method of the name that it has for it.
"""

from __future__ import annotations

from collections.abc import Callable

from .card import Card

NO_MARK = -1  # of an event that was not recorded


class Marks:
    """Events are known by the number of their mark, streams by their id."""

    def __init__(self, card: Callable[[], Card]) -> None:
        self._card = card

    def record(self, stream: int) -> int:
        """Mark the end of all work that the stream has so far."""
        return self._flushed("Event.record").timeline.mark(stream)

    def block(self, mark: int, stream: int) -> None:
        """Later work of the stream starts after the mark."""
        card = self._flushed("Event.wait")
        if mark != NO_MARK:
            card.timeline.stream_after(stream, mark)

    def query(self, mark: int) -> bool:
        """Whether the mark was reached in modelled time; asking takes the host a moment."""
        card = self._flushed("Event.query")
        return mark == NO_MARK or card.timeline.poll_mark(mark)

    def synchronize(self, mark: int) -> None:
        """The host waits for the mark."""
        card = self._flushed("Event.synchronize")
        card.join()
        if mark != NO_MARK:
            card.timeline.host_after(mark)

    def elapsed(self, start: int, end: int) -> float:
        """Modelled milliseconds from one mark to another."""
        timeline = self._card().timeline
        return (timeline.moment(end) - timeline.moment(start)) * 1e3

    def forget(self, mark: int) -> None:
        """Nobody will ask for that mark again."""
        self._card().timeline.forget(mark)

    def choose(self, stream: int) -> None:
        """What follows goes to that stream."""
        self._flushed("stream switch").stream = stream

    def query_stream(self, stream: int) -> bool:
        """Whether all its work has ended in modelled time; asking takes the host a moment."""
        return self._flushed("Stream.query").timeline.poll_stream(stream)

    def synchronize_stream(self, stream: int) -> None:
        """The host waits for the stream's work."""
        card = self._flushed("Stream.synchronize")
        card.join()
        card.timeline.wait_stream(stream)

    def _flushed(self, reason: str) -> Card:
        card = self._card()
        card.flush(reason)
        return card
