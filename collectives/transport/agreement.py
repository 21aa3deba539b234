"""What the headers of all ranks say together: whether they agree, and what each did last."""

from __future__ import annotations

from collections.abc import Sequence

from .. import header
from ..errors import MismatchError
from .membership import Membership
from .subgroup import Subgroup


def disagreement(members: Membership | Subgroup, group: str, slots: Sequence[memoryview]) -> str:
    """Who called what, where headers (by place in the group) differ."""
    callers: dict[str, list[int]] = {}
    for place, slot in enumerate(slots):
        callers.setdefault(header.describe(slot), []).append(place)
    calls = [f"{members.name_ranks(places)} called {text}" for text, places in callers.items()]
    return f"ranks disagree in process group {group}: {'; '.join(calls)}"


def split_tables(members: Membership | Subgroup, group: str, slots: Sequence[memoryview]) -> list[tuple[int, ...]]:
    """All ranks' split tables: lengths of the blocks to each rank, then from each.

    Raises:
        MismatchError: a rank sends another length than the receiver expects.
    """
    ranks = len(slots)
    tables = [header.read_table(slot, 2 * ranks) for slot in slots]
    for source in range(ranks):
        for target in range(ranks):
            sent, wanted = tables[source][target], tables[target][ranks + source]
            if sent != wanted:
                name = members.peers
                raise MismatchError(
                    f"ranks disagree in process group {group} on {header.describe(slots[source])}: "
                    f"rank {name[source].rank} sends {sent} elements to rank {name[target].rank}, "
                    f"which expects {wanted}"
                )
    return tables


def describe_last(members: Membership | Subgroup, place: int, slot: memoryview) -> str:
    """What a rank's latest header says, in words."""
    name = f"rank {members.peers[place].rank}"
    if header.read_sequence(slot) == 0:
        return f"{name} has called no collective of this group yet"
    return f"{name} last called {header.describe(slot)}"
