"""Figures for people: times, sizes, shares."""

from __future__ import annotations

NONE = "-"
"""Stands where there is no figure."""


def duration(seconds: float) -> str:
    """`12.3 ms`, `1.23 s`, `450 us`; `-` for zero."""
    if seconds <= 0:
        return NONE
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{_three_digits(seconds / scale)} {unit}"
    return f"{_three_digits(seconds / 1e-6)} us"


def size(count: float) -> str:
    """Bytes as `12.3 MB` with 1024-based steps, written as the card's tools do; `-` for zero."""
    if count <= 0:
        return NONE
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{_three_digits(count)} {unit}"
        count /= 1024
    return f"{_three_digits(count)} GB"


def rate(per_second: float) -> str:
    """A rate: `813`, `12.3`; `-` for zero."""
    return _three_digits(per_second) if per_second > 0 else NONE


def share(part: float, whole: float) -> str:
    """`part` of `whole` in percent, without the sign; `-` where the whole is zero."""
    return f"{100 * part / whole:.0f}" if whole > 0 else NONE


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
