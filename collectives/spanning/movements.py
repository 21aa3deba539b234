"""Collectives that only move data, across machines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..exchange import AllGather, AllToAll, Broadcast, Gather, Scatter
from .crossing import Crossing

_CHUNK_BYTES = 4 << 20  # of a broadcast: while one is passed on within a machine, the next is on its way


def all_gather(crossing: Crossing, exchange: AllGather) -> None:
    """Every rank's data crosses once to each other machine, to one rank there, which passes it on."""
    layout, outputs = crossing.layout, exchange.outputs
    for machine in layout.others:
        crossing.post(layout.counterpart(machine), exchange.data)
    crossing.receive_all(
        [(place, outputs[place]) for machine in layout.others for place in layout.entrusted(machine, layout.index)]
    )
    unused = np.empty(len(exchange.data), exchange.dtype)
    crossing.exchange(_spread(crossing, exchange.data, [outputs[place] for place in layout.mates]))
    count = len(layout.mates)
    for machine in layout.others:
        places = layout.machines[machine]
        for first in range(0, len(places), count):
            wave = [outputs[place] for place in places[first : first + count]]
            wave += [unused] * (count - len(wave))
            crossing.exchange(_spread(crossing, wave[layout.index], wave))
    crossing.finish()


def _spread(crossing: Crossing, data: np.ndarray, outputs: Sequence[np.ndarray]) -> AllGather:
    return AllGather(crossing.layout.index, len(crossing.layout.mates), data, outputs)


def gather(crossing: Crossing, exchange: Gather) -> None:
    """Ranks of other machines send straight to the root."""
    layout, root = crossing.layout, exchange.root
    if layout.machine_of(root) != layout.machine:
        crossing.post(root, exchange.data)
        crossing.finish()
        return
    is_root = root == layout.own
    outputs = [exchange.outputs[place] for place in layout.mates] if is_root else []
    crossing.exchange(Gather(layout.index, len(layout.mates), exchange.data, outputs, layout.mates.index(root)))
    if is_root:
        crossing.receive_all([(place, exchange.outputs[place]) for place in layout.far])


def scatter(crossing: Crossing, exchange: Scatter) -> None:
    """The root sends straight to the ranks of other machines."""
    layout, root = crossing.layout, exchange.root
    if layout.machine_of(root) != layout.machine:
        crossing.receive(root, exchange.output)
        return
    blocks = exchange.blocks
    near = None
    if blocks is not None:
        for place in layout.far:
            crossing.post(place, blocks[place])
        near = [blocks[place] for place in layout.mates]
    crossing.exchange(Scatter(layout.index, len(layout.mates), near, exchange.output, layout.mates.index(root)))
    crossing.finish()


def broadcast(crossing: Crossing, exchange: Broadcast) -> None:
    """The root sends to the first rank of each other machine, which passes it on chunk by chunk."""
    layout, root = crossing.layout, exchange.root
    source = layout.machine_of(root)
    size = max(1, _CHUNK_BYTES // exchange.dtype.itemsize)
    chunks = [exchange.data[low : low + size] for low in range(0, exchange.items, size)]
    if layout.own == root:
        for chunk in chunks:
            for machine in layout.others:
                crossing.post(layout.machines[machine][0], chunk)
    is_first = layout.index == 0
    holder = layout.mates.index(root) if source == layout.machine else 0
    for chunk in chunks:
        if source != layout.machine and is_first:
            crossing.receive(root, chunk)
        crossing.exchange(Broadcast(layout.index, len(layout.mates), chunk, holder))
    crossing.finish()


def all_to_all(crossing: Crossing, exchange: AllToAll, tables: Sequence[Sequence[int]]) -> None:
    """Blocks to other machines go straight to their ranks. `tables` are all ranks' split tables."""
    layout = crossing.layout
    for place in layout.far:
        crossing.post(place, exchange.inputs[place])
    blocks = [exchange.inputs[place] for place in layout.mates]
    targets = [exchange.outputs[place] for place in layout.mates]
    crossing.hand_over(blocks, targets, [[tables[mate][other] for other in layout.mates] for mate in layout.mates])
    crossing.receive_all([(place, exchange.outputs[place]) for place in layout.far])
    crossing.finish()
