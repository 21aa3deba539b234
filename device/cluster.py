"""Pieces of a compiled program on one card: recorded as one graph, one recipe each.

The first call with inputs of one layout runs the piece's operators and records them, as lazy mode would. Later calls
with inputs of the same layout lay the recording over the new memory: one native call, whatever the piece's length.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .recipes import Origin

if TYPE_CHECKING:
    from .card import Card


class Cluster:
    """Operators that run together. `body` computes a sequence of outputs from the inputs.

    Inputs and outputs are tensors, numbers or None.
    """

    def __init__(
        self, body: Callable[..., Any], origin: Origin, card: Callable[[], Card], bridge: Callable[[], Any]
    ) -> None:
        self._body = body
        self._origin = origin
        self._card = card
        self._bridge = bridge
        self._laid: dict[str, Any] = {}

    def __call__(self, *inputs: Any) -> Any:
        """The outputs of the piece, in a list or tuple."""
        arguments = list(inputs)
        bridge = self._bridge()
        key = bridge.input_key(arguments)
        known = self._laid.get(key)
        if known is not None:
            recording, outputs = known.lay(arguments)
            if recording is None or self._card().run_piece(recording):
                return outputs
            del self._laid[key]  # its recipe has left the cache
        return self._record(bridge, key, arguments)

    def _record(self, bridge: Any, key: str | None, arguments: list[Any]) -> Any:
        card = self._card()
        piece = card.begin_piece()
        try:
            outputs = self._body(*arguments)
            card.end_piece(piece, self._origin)
        except BaseException:
            card.drop_piece()
            raise
        if key is not None and piece.whole:
            with suppress(ValueError):  # an output that is not on the card: the piece is recorded each time
                self._laid[key] = bridge.Cluster(piece.recording, arguments, outputs)
        return outputs
