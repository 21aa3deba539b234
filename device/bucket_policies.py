"""From which sizes to which a new bucket reaches.

Policies, tried in order until one gives sizes that the card can express (PT_HPU_DYNAMIC_MIN_POLICY_ORDER, default
"4,5,3,1", and PT_HPU_DYNAMIC_MAX_POLICY_ORDER, default "2,4,5,3,1"):

    1  current          these sizes
    2  calculated       maximum: twice these sizes; minimum: half of them; at least 2
    3  historic         of all sizes of this graph so far
    4  local historic   of those since the last bucket was made
    5  the same for each tensor by itself: where a tensor has kept its sizes since then, of all of its sizes
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .errors import ConfigurationError
from .graph.shape_free import Sizes

MIN_ORDER = "PT_HPU_DYNAMIC_MIN_POLICY_ORDER"
MAX_ORDER = "PT_HPU_DYNAMIC_MAX_POLICY_ORDER"
THRESHOLD = "PT_HPU_DS_TIME_IMPROVE_THRESHOLD_PERCENT"
CURRENT, CALCULATED, HISTORIC, LOCAL_HISTORIC, LOCAL_HISTORIC_PER_TENSOR = 1, 2, 3, 4, 5
LARGEST_SIZE = 2**31 - 1  # sizes are 32-bit in the card's tensor descriptors


@dataclass(frozen=True)
class Policies:
    """In which order minima and maxima are tried, and by how much a refined recipe has to be faster, in percent."""

    minimum: tuple[int, ...] = (LOCAL_HISTORIC, LOCAL_HISTORIC_PER_TENSOR, HISTORIC, CURRENT)
    maximum: tuple[int, ...] = (CALCULATED, LOCAL_HISTORIC, LOCAL_HISTORIC_PER_TENSOR, HISTORIC, CURRENT)
    threshold_percent: float = 10.0


def read_policies(environ: Mapping[str, str]) -> Policies:
    """The policies that the environment asks for.

    Raises:
        ConfigurationError: an order that is no list of policies or does not end in 3,1; a threshold that is no number.
    """
    default = Policies()
    return Policies(
        _order(environ, MIN_ORDER, default.minimum),
        _order(environ, MAX_ORDER, default.maximum),
        _percent(environ, default.threshold_percent),
    )


def _order(environ: Mapping[str, str], name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    text = environ.get(name, "").strip()
    if not text:
        return default
    parts = [part.strip() for part in text.split(",")]
    unknown = [part for part in parts if part not in ("1", "2", "3", "4", "5")]
    if unknown:
        raise ConfigurationError(
            f"{name}={text!r}: {unknown[0]!r} is not a policy; use numbers from 1 to 5, such as "
            f"{','.join(map(str, default))}"
        )
    if parts[-2:] != ["3", "1"]:
        raise ConfigurationError(f"{name}={text!r} must end in 3,1; use {','.join(map(str, default))}")
    return tuple(int(part) for part in parts)


def _percent(environ: Mapping[str, str], default: float) -> float:
    text = environ.get(THRESHOLD, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = math.nan
    if not 0 <= value <= 100:
        raise ConfigurationError(f"{THRESHOLD}={text!r} is not a percentage; use a number from 0 to 100, such as 10")
    return value


@dataclass
class History:
    """The least and largest sizes of a graph so far (`ever`), and since its last bucket was made (`local`)."""

    ever_low: Sizes
    ever_high: Sizes
    local_low: Sizes
    local_high: Sizes

    @classmethod
    def of(cls, sizes: Sizes) -> History:
        """What begins with these sizes."""
        return cls(sizes, sizes, sizes, sizes)

    def see(self, sizes: Sizes) -> None:
        self.ever_low, self.ever_high = widened(self.ever_low, self.ever_high, sizes)
        self.local_low, self.local_high = widened(self.local_low, self.local_high, sizes)

    def begin_locally(self, sizes: Sizes) -> None:
        """A bucket is made for these sizes."""
        self.local_low = self.local_high = sizes


def widened(low: Sizes, high: Sizes, sizes: Sizes) -> tuple[Sizes, Sizes]:
    """The range from `low` to `high`, with `sizes` in it."""
    return _each(min, low, sizes), _each(max, high, sizes)


def bounds(history: History, sizes: Sizes, policies: Policies) -> tuple[Sizes, Sizes]:
    """From which sizes to which a bucket reaches that is made for `sizes`, which are in the history."""
    return (
        _first(history, sizes, policies.minimum, lowest=True),
        _first(history, sizes, policies.maximum, lowest=False),
    )


def _first(history: History, sizes: Sizes, order: Sequence[int], lowest: bool) -> Sizes:
    for policy in order:
        bound = _by_policy(history, sizes, policy, lowest)
        if all(size <= LARGEST_SIZE for tensor in bound for size in tensor):
            return bound
    return sizes


def _by_policy(history: History, sizes: Sizes, policy: int, lowest: bool) -> Sizes:
    ever = history.ever_low if lowest else history.ever_high
    local = history.local_low if lowest else history.local_high
    if policy == CURRENT:
        return sizes
    if policy == HISTORIC:
        return ever
    if policy == LOCAL_HISTORIC:
        return local
    if policy == LOCAL_HISTORIC_PER_TENSOR:
        stays = [low == high for low, high in zip(history.local_low, history.local_high, strict=True)]
        return tuple(whole if same else part for whole, part, same in zip(ever, local, stays, strict=True))
    calculated = _each(lambda size, _: max(2, size // 2 if lowest else 2 * size), sizes, sizes)
    # Only dimensions that have changed: the others are no batch or length, and a range would buy nothing.
    return tuple(
        tuple(new if low != high else size for new, size, low, high in zip(*tensors, strict=True))
        for tensors in zip(calculated, sizes, history.ever_low, history.ever_high, strict=True)
    )


def _each(function: Callable[[int, int], int], one: Sizes, other: Sizes) -> Sizes:
    return tuple(tuple(map(function, a, b)) for a, b in zip(one, other, strict=True))
