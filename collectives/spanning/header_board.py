"""The headers of all ranks at every rank, before any data counts."""

from __future__ import annotations

import numpy as np

from .. import header
from ..exchange import AllGather
from .crossing import Crossing
from .layout import Layout


class HeaderBoard:
    """One header per rank of the group, by place.

    A rank sends its header to one rank of each other machine; then the ranks of a machine pass on to each other what
    they have got.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        slot = header.header_bytes(layout.ranks)
        self._array = np.zeros((layout.ranks, slot), dtype=np.uint8)
        self.slots = [row.data for row in self._array]
        mates = range(len(layout.mates))
        self._bundles = [self._bundle(index) for index in mates]
        longest = max(len(bundle) for bundle in self._bundles)
        self._passed = [np.zeros((longest, slot), dtype=np.uint8) for _ in mates]

    def _bundle(self, index: int) -> list[int]:
        """Places whose headers the rank with this index passes on."""
        far = [place for machine in self._layout.others for place in self._layout.entrusted(machine, index)]
        return [self._layout.mates[index], *far]

    def exchange(self, crossing: Crossing) -> None:
        """Show our header, which is in its slot, and fill the other slots. Raises as `SharedTransport.exchange`."""
        layout = self._layout
        own = self._array[layout.own]
        for machine in layout.others:
            crossing.post(layout.counterpart(machine), own)
        bundle = self._bundles[layout.index]
        crossing.receive_all([(place, self._array[place]) for place in bundle[1:]])
        crossing.finish()
        mine = np.zeros_like(self._passed[layout.index])
        mine[: len(bundle)] = self._array[bundle]
        outputs = [passed.reshape(-1) for passed in self._passed]
        passing = AllGather(layout.index, len(layout.mates), mine.reshape(-1), outputs)
        passing.moves_data = True  # headers do, whatever becomes of the data
        crossing.exchange(passing)
        for places, passed in zip(self._bundles, self._passed, strict=True):
            self._array[places] = passed[: len(places)]
