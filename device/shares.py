"""Where modelled time went."""

from __future__ import annotations


def time_shares(total: float, compiling: float, collectives: float, device: float) -> dict[str, float]:
    """Where `total` went, in shares that add up to it: compiling first, then collectives, then the card, then the host.

    Compilation holds up both host and card; of collectives, what counts is the time for which the card stood still.
    What the card did while the host prepared more counts as the card's.
    """
    left = total
    shares = {"total": total}
    for name, seconds in (("compile", compiling), ("collectives", collectives), ("device", device)):
        shares[name] = min(seconds, left)
        left -= shares[name]
    shares["host"] = left
    return shares
