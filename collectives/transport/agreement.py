"""What the headers of all ranks say together: whether they agree, and what each did last."""

from __future__ import annotations

from collections.abc import Sequence

from .. import header
from .membership import Membership
from .subgroup import Subgroup

Table = tuple[int, ...]
"""A rank's split table: lengths of its blocks to each rank, then from each."""


def disagreement(members: Membership | Subgroup, group: str, slots: Sequence[memoryview], is_uneven: bool) -> str:
    """In which way the headers (by place in the group) differ; `is_uneven`: they have split tables."""
    callers: dict[str, list[int]] = {}
    for place, slot in enumerate(slots):
        callers.setdefault(header.describe(slot), []).append(place)
    what = f"ranks disagree in process group {group}"
    if len(callers) == 1 and is_uneven and (difference := split_difference(members, slots, split_tables(slots))):
        return f"{what} on {difference}"
    calls = [f"{members.name_ranks(places)} called {text}" for text, places in callers.items()]
    return f"{what}: {'; '.join(calls)}"


def split_tables(slots: Sequence[memoryview]) -> list[Table]:
    """The split tables in the headers."""
    return [header.read_table(slot, 2 * len(slots)) for slot in slots]


def split_difference(
    members: Membership | Subgroup, slots: Sequence[memoryview], tables: Sequence[Table]
) -> str | None:
    """Who sends another length than the receiver expects; None if nobody does."""
    ranks, peers = len(slots), members.peers
    for source in range(ranks):
        for target in range(ranks):
            sent, wanted = tables[source][target], tables[target][ranks + source]
            if sent != wanted:
                return (
                    f"{header.describe(slots[source])}: rank {peers[source].rank} sends {sent} elements to rank "
                    f"{peers[target].rank}, which expects {wanted}"
                )
    return None


def describe_last(members: Membership | Subgroup, place: int, slot: memoryview) -> str:
    """What a rank's latest header says, in words."""
    name = f"rank {members.peers[place].rank}"
    if header.read_sequence(slot) == 0:
        return f"{name} has called no collective of this group yet"
    return f"{name} last called {header.describe(slot)}"
