"""Which intermediates stay in SRAM: workspace that is small and soon used up.

A buffer qualifies when it is written and read within `NEAR` nodes of the program and takes at most `LARGEST` of what
is usable. `USABLE` of the capacity counts; the rest is left to the slices that running kernels stream through. Space
is given in program order, first come, first served, and space that was in use before is given again only when its
last users have ended: those nodes are added as dependencies. Fragmentation of SRAM is left out.

The three figures are assumed; no compiler report gives them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .program import Program

USABLE = 0.75
LARGEST = 0.25
NEAR = 8


@dataclass(frozen=True)
class SramPlan:
    """`buffers` that stay on the chip; `waits`: for a node, the earlier nodes whose space it takes over."""

    buffers: frozenset[int]
    waits: Mapping[int, tuple[int, ...]]
    peak_bytes: int


def plan_sram(program: Program, uses: Mapping[int, Sequence[int]], capacity: int) -> SramPlan:
    """Choose the buffers for `capacity` bytes of SRAM; `uses` as `dependencies.uses` gives it."""
    usable = int(capacity * USABLE)
    starting: dict[int, list[int]] = {}
    for buffer, touching in uses.items():
        entry = program.buffers[buffer]
        if entry.is_workspace and 0 < entry.nbytes <= usable * LARGEST and touching[-1] - touching[0] <= NEAR:
            starting.setdefault(touching[0], []).append(buffer)
    clean = usable  # never used so far
    freed: deque[tuple[int, int]] = deque()  # (bytes, node that used them last), oldest first
    held: dict[int, list[int]] = {}  # last node: buffers that end with it
    in_use = peak = 0
    chosen: set[int] = set()
    waits: dict[int, tuple[int, ...]] = {}
    for number in range(len(program.nodes)):
        for buffer in sorted(starting.get(number, ())):
            size, last = program.buffers[buffer].nbytes, uses[buffer][-1]
            if in_use + size > usable:
                continue
            chosen.add(buffer)
            in_use += size
            peak = max(peak, in_use)
            held.setdefault(last, []).append(buffer)
            fresh = min(clean, size)
            clean -= fresh
            wanted, users = size - fresh, set()
            while wanted > 0:
                available, user = freed.popleft()
                users.add(user)
                if available > wanted:
                    freed.appendleft((available - wanted, user))
                wanted -= min(available, wanted)
            if users:
                waits[number] = tuple(sorted(users | set(waits.get(number, ()))))
        for buffer in held.pop(number, ()):
            in_use -= program.buffers[buffer].nbytes
            freed.append((program.buffers[buffer].nbytes, number))
    return SramPlan(frozenset(chosen), waits, peak)
