"""What holds memory, and what did not get any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

COPIES = "copy"  # the origin of what the host copied in


class Holding(NamedTuple):
    """A tensor that holds memory, and where it came from."""

    block: int
    category: int
    since: int  # number of the first sample that it is part of
    origin: str  # recipe, or COPIES
    slot: int  # buffer of that recipe's graph
    nbytes: int  # as asked for


@dataclass(frozen=True)
class Copied:
    """What the host copied to an address."""

    dtype: str
    sizes: tuple[int, ...]
    where: str  # the user's source line


@dataclass(frozen=True)
class Shortage:
    """Memory ran out. Bytes; `free` and `largest`, the largest hole, as the request found them.

    `workspace`: the present workspace, where the request was for a larger one; None where it was for a tensor.
    """

    requested: int
    free: int
    largest: int
    limit: int
    workspace: int | None = None
