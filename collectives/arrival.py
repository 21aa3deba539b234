"""When a rank's data is ready for a collective, and how busy its ports are then."""

from __future__ import annotations

from typing import NamedTuple


class Arrival(NamedTuple):
    """What a rank tells the others with its header; both in modelled seconds.

    `moment`: from then on its data is ready; negative where no card takes part there, but host memory. `backlog`: how
    much longer the collective takes because this card's ports carry other transfers at the same time.
    """

    moment: float = -1.0
    backlog: float = 0.0
