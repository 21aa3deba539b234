"""When each node of a program runs: list scheduling over the card's engines.

MME, TPC, DMA and NIC each run one node at a time, side by side. Of the nodes whose dependencies are placed, that which
can start first is placed next; among equals that which comes first in the program. None runs more than `WINDOW` nodes
ahead of the oldest one that waits: the queues are filled in program order, and memory is not held long.

Pipelining: where a node of the matrix engine feeds a vector kernel or the other way round, through a buffer of at least
two slices of SRAM that both go through from front to back, and no other node touches that buffer, the consumer starts
when the first slice is done and ends no sooner than one slice after the producer. All other consumers wait for the end
of their producers, also those of values that a backward pass needs again. Published training steps fit a sum of matrix
and vector time better than their maximum, so nothing is overlapped beyond this and what is independent in the graph.
The slices' traffic counts in full; contention of the engines for HBM is left out.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..spec import CardSpec
from .cost import node_cost
from .dependencies import dependencies
from .program import Access, Engine, EngineNode, Program
from .recipe import ScheduledNode
from .sram import SramPlan

SLICE = 0.25  # of SRAM: two slices each of what a producer writes and a consumer reads; assumed
WINDOW = 32  # nodes by which one may run ahead of the oldest that waits; assumed
PIPELINED = frozenset({Engine.MME, Engine.TPC})


@dataclass(frozen=True)
class Pipe:
    """A producer that hands `buffer` over in slices."""

    producer: int
    buffer: int
    slices: int


def pipes(program: Program, uses: Mapping[int, Sequence[int]], slice_bytes: int) -> dict[int, Pipe]:
    """For each consumer of sliced data its producer; at most one, the one with the most slices."""
    found: dict[int, Pipe] = {}
    if not slice_bytes:
        return found
    for buffer, touching in uses.items():
        slices = math.ceil(program.buffers[buffer].nbytes / slice_bytes)
        if slices < 2 or len(touching) != 2 or not program.buffers[buffer].is_workspace:
            continue
        producer, consumer = touching
        one, other = program.nodes[producer], program.nodes[consumer]
        if {one.engine, other.engine} != PIPELINED:
            continue
        if not (_in_order(one.writes, buffer) and _in_order(other.reads, buffer)):
            continue
        if consumer not in found or found[consumer].slices < slices:
            found[consumer] = Pipe(producer, buffer, slices)
    return found


def _in_order(accesses: tuple[Access, ...], buffer: int) -> bool:
    touching = [access for access in accesses if access.buffer == buffer]
    return bool(touching) and all(access.in_order for access in touching)


def schedule(
    program: Program, spec: CardSpec, uses: Mapping[int, Sequence[int]], sram: SramPlan
) -> tuple[ScheduledNode, ...]:
    """The nodes with their start (seconds from the start of the recipe) and duration, in program order."""
    nodes = program.nodes
    sliced = pipes(program, uses, int(spec.sram.capacity_bytes * SLICE))
    needs = [tuple(sorted({*found, *sram.waits.get(number, ())})) for number, found in enumerate(dependencies(nodes))]
    users: list[list[int]] = [[] for _ in nodes]
    for number, found in enumerate(needs):
        for need in found:
            users[need].append(number)
    costs = [node_cost(node, spec, _on_chip(node, sram)) for node in nodes]
    placed: list[ScheduledNode | None] = [None] * len(nodes)
    free = dict.fromkeys(Engine, 0.0)
    missing = [len(found) for found in needs]

    def ready(number: int) -> float:
        pipe = sliced.get(number)
        moment = 0.0
        for need in needs[number]:
            done = placed[need]
            assert done is not None  # ready() is asked for nodes whose dependencies are placed
            if pipe is not None and need == pipe.producer:
                follow = done.end + costs[number].seconds / pipe.slices - costs[number].seconds
                moment = max(moment, done.start + done.seconds / pipe.slices, follow)
            else:
                moment = max(moment, done.end)
        return moment

    queue: list[tuple[float, int]] = []
    early = [number for number in range(len(nodes)) if not missing[number]]  # ready, but perhaps beyond the window
    heapq.heapify(early)
    oldest = 0
    while oldest < len(nodes):
        while early and early[0] <= oldest + WINDOW:
            number = heapq.heappop(early)
            heapq.heappush(queue, (max(ready(number), free[nodes[number].engine]), number))
        moment, number = heapq.heappop(queue)
        engine = nodes[number].engine
        if free[engine] > moment:
            heapq.heappush(queue, (free[engine], number))
            continue
        placed[number] = ScheduledNode(nodes[number], moment, costs[number].seconds, costs[number].bound)
        free[engine] = moment + costs[number].seconds
        for user in users[number]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(early, user)
        while oldest < len(nodes) and placed[oldest] is not None:
            oldest += 1
    return tuple(node for node in placed if node is not None)


def _on_chip(node: EngineNode, sram: SramPlan) -> tuple[int, ...]:
    return tuple(sorted({access.buffer for access in node.reads + node.writes if access.buffer in sram.buffers}))
