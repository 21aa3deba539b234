"""Sizes as they stand on the command line: `33554432`, `32m`, `1.5G`, `64B`."""

from __future__ import annotations

from collections.abc import Iterator

UNITS = "BKMG"


def parse_size(text: str, kilo: int = 1024) -> int:
    """Bytes. `kilo` is 1024 for memory and 1000 for bandwidths; units are B, K, M and G, in either case.

    Raises:
        ValueError: not a positive number with or without such a unit.
    """
    number, unit = text.strip(), "B"
    if number[-1:].isalpha():
        number, unit = number[:-1], number[-1].upper()
    try:
        size = int(float(number) * kilo ** UNITS.index(unit)) if unit != "B" else int(number)
    except (ValueError, OverflowError):
        size = 0
    if size < 1:
        raise ValueError(f"{text!r} is not a size; use a positive number, alone or with B, K, M or G: 33554432, 32m")
    return size


def each_size(low: int, high: int, increment: int) -> Iterator[int]:
    """From `low` to `high`, both included, in steps of 2^increment."""
    while low <= high:
        yield low
        low <<= increment
