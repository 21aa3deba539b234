"""PyTorch's own streams and events (`torch.Stream("hpu")`, `torch.Event("hpu")`) in modelled time.

The native bridge answers PyTorch's device guard; what that asks of the card's timeline comes here. `torch.hpu.Stream`
and `torch.hpu.Event` do not take this way (`device/streams.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from ..card import Card


class GuardStreams:
    """`answer(what, one, other)`: numbers are marks of the timeline or ids of streams, -1 an event without a mark."""

    def __init__(self, card: Callable[[], Card]) -> None:
        self._card = card

    def answer(self, what: str, one: int, other: int) -> float:
        """A mark's number, a truth value, milliseconds, or 0 where nothing is asked."""
        card = self._card()
        if what == "forget":
            card.timeline.forget(one)
            return 0
        if what == "elapsed":
            return (card.timeline.moment(other) - card.timeline.moment(one)) * 1e3
        card.flush("stream switch" if what == "choose" else f"torch.Event.{what}")
        if what == "record":
            return card.timeline.mark(one)
        if what == "query":
            return one < 0 or card.timeline.poll_mark(one)
        if what == "query_stream":
            return card.timeline.poll_stream(one)
        if what == "choose":
            card.stream = one
        elif what == "block":
            if one >= 0:
                card.timeline.stream_after(other, one)
        else:
            card.join()
            if what == "synchronize_stream":
                card.timeline.wait_stream(one)
            elif one >= 0:
                card.timeline.host_after(one)
        return 0
