"""What a card's report says of its collectives: how many, how large, how long, and who was waited for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .network import Transfer


@dataclass
class Figures:
    """Sums over transfers; sizes in bytes, times in modelled seconds.

    `seconds` is time on the network and `hidden` what of it passed behind computing; `waited` is time until the last
    rank was ready; `exposed` is that in which the card stood still, for the others or for the network.
    """

    count: int = 0
    nbytes: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    exposed: float = 0.0
    hidden: float = 0.0

    def add(self, nbytes: int, seconds: float, waited: float, exposed: float) -> None:
        self.count += 1
        self.nbytes += nbytes
        self.seconds += seconds
        self.waited += waited
        self.exposed += exposed
        if seconds > exposed:
            self.hidden += seconds - exposed

    def to_plain(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "bytes": self.nbytes,
            "seconds": self.seconds,
            "waited": self.waited,
            "exposed": self.exposed,
            "hidden": self.hidden,
        }


@dataclass
class Communication:
    """The transfers of one card so far."""

    total: Figures = field(default_factory=Figures)
    waited_for: dict[int, float] = field(default_factory=dict)  # seconds by rank
    _operations: dict[tuple[str, int], Figures] = field(default_factory=dict)

    def add(self, transfer: Transfer, exposed: float) -> None:
        """A transfer is over, for which the card stood still for `exposed` seconds."""
        nbytes, seconds, waited = transfer.nbytes, transfer.seconds, transfer.waited
        self.total.add(nbytes, seconds, waited, exposed)
        key = (transfer.operation, len(transfer.ranks))
        figures = self._operations.get(key)
        if figures is None:
            figures = self._operations[key] = Figures()
        figures.add(nbytes, seconds, waited, exposed)
        if transfer.last is not None and waited > 0:
            self.waited_for[transfer.last] = self.waited_for.get(transfer.last, 0.0) + waited

    def to_plain(self) -> dict[str, Any]:
        """The sums; by rank that was waited for, the longest first; by operation and number of ranks."""
        return {
            **self.total.to_plain(),
            "waited_for": [
                {"rank": rank, "seconds": seconds}
                for rank, seconds in sorted(self.waited_for.items(), key=lambda item: (-item[1], item[0]))
            ],
            "operations": [
                {
                    "operation": operation,
                    "ranks": ranks,
                    **figures.to_plain(),
                    "bytes_per_s": figures.nbytes / figures.seconds if figures.seconds > 0 else 0.0,
                }
                for (operation, ranks), figures in sorted(self._operations.items())
            ],
        }


NO_COMMUNICATION = Communication().to_plain()
"""What the report says of a card that took part in none."""
