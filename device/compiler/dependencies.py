"""What must run before what: dependencies that follow from the order of reads and writes of each buffer."""

from __future__ import annotations

from collections.abc import Sequence

from .program import EngineNode


def dependencies(nodes: Sequence[EngineNode]) -> list[tuple[int, ...]]:
    """For each node the earlier nodes that it must wait for: writers of what it reads, users of what it overwrites.

    Buffers count as a whole, also where windows do not meet. Dependencies that follow from others are left out only
    where a later writer of the same buffer stands between.
    """
    result: list[tuple[int, ...]] = []
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        needs: set[int] = set()
        for access in node.reads:
            if access.buffer in writer:
                needs.add(writer[access.buffer])
        for access in node.writes:
            if access.buffer in writer:
                needs.add(writer[access.buffer])
            needs.update(readers.get(access.buffer, ()))
        for access in node.reads:
            readers.setdefault(access.buffer, []).append(number)
        for access in node.writes:
            writer[access.buffer] = number
            readers[access.buffer] = []
        needs.discard(number)
        result.append(tuple(sorted(needs)))
    return result


def uses(nodes: Sequence[EngineNode]) -> dict[int, list[int]]:
    """For each buffer the nodes that touch it, in program order."""
    result: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        for access in node.reads + node.writes:
            touching = result.setdefault(access.buffer, [])
            if not touching or touching[-1] != number:
                touching.append(number)
    return result
