"""Transfers that share links: when each ends, if every moment all rates are max-min fair.

Max-min fair: no transfer can be given more without taking from one that has no more than it. Found by progressive
filling: all rates grow together until a link is full; what goes over that link keeps its rate, the others grow on
(Bertsekas and Gallager, Data Networks, 6.5.2). So two transfers on one link each take twice as long while both run, and
a transfer that something else holds back leaves its share to the others. RoCE with congestion control comes near this;
left out: the time that congestion control needs to find the rates, and pauses that spread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Transfer:
    """`nbytes` over all of `links` at once, from `start_s` on. One without links is over at once."""

    start_s: float
    nbytes: float
    links: frozenset[Hashable]


def fair_rates(routes: Sequence[frozenset[Hashable]], bytes_per_s: Mapping[Hashable, float]) -> list[float]:
    """Max-min fair rates in bytes per second of transfers over these links, whose capacities are `bytes_per_s`.

    Raises:
        ValueError: a link without a capacity, or with none to share.
    """
    _check(routes, bytes_per_s)
    rates = [float("inf")] * len(routes)
    growing = {index for index, route in enumerate(routes) if route}
    left = dict(bytes_per_s)
    users = Counter(link for index in growing for link in routes[index])
    while growing:
        share = min(left[link] / count for link, count in users.items())
        full = {link for link, count in users.items() if left[link] / count <= share}
        held = {index for index in growing if not full.isdisjoint(routes[index])}
        growing -= held
        taken = Counter(link for index in held for link in routes[index])
        for link, count in taken.items():
            left[link] = max(0.0, left[link] - share * count)
            users[link] -= count
            if not users[link]:
                del users[link]
        for index in held:
            rates[index] = share
    return rates


def ends(transfers: Sequence[Transfer], bytes_per_s: Mapping[Hashable, float]) -> list[float]:
    """The moment in seconds at which each transfer ends, in their order.

    Raises:
        ValueError: a link without a capacity, or with none; a negative size.
    """
    _check([transfer.links for transfer in transfers], bytes_per_s)
    for transfer in transfers:
        if transfer.nbytes < 0:
            raise ValueError(f"a transfer cannot have {transfer.nbytes} bytes")
    finished = [transfer.start_s for transfer in transfers]
    waiting = sorted(
        (index for index, transfer in enumerate(transfers) if transfer.links and transfer.nbytes),
        key=lambda index: transfers[index].start_s,
        reverse=True,
    )
    left: dict[int, float] = {}
    now = 0.0
    while waiting or left:
        if not left:
            now = transfers[waiting[-1]].start_s
        while waiting and transfers[waiting[-1]].start_s <= now:
            index = waiting.pop()
            left[index] = transfers[index].nbytes
        active = list(left)
        rates = dict(zip(active, fair_rates([transfers[index].links for index in active], bytes_per_s), strict=True))
        needed = {index: left[index] / rates[index] for index in active}
        step = min(needed.values())
        if waiting and transfers[waiting[-1]].start_s < now + step:
            step = transfers[waiting[-1]].start_s - now
            over: list[int] = []
            now = transfers[waiting[-1]].start_s
        else:
            over = [index for index in active if needed[index] <= step * (1 + 1e-12)]
            now += step
        for index in over:
            finished[index] = now
            del left[index]
        for index in left:
            left[index] -= rates[index] * step
            if left[index] <= 0.0:  # rounding: it ends with those that have ended now
                left[index] = transfers[index].nbytes * 1e-15
    return finished


def _check(routes: Sequence[frozenset[Hashable]], bytes_per_s: Mapping[Hashable, float]) -> None:
    for link in {link for route in routes for link in route}:
        if not bytes_per_s.get(link, 0.0) > 0:
            raise ValueError(f"link {link!r} carries nothing ({bytes_per_s.get(link)} bytes per second)")
