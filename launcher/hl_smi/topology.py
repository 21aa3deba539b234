"""`topo`: which processors and which memory of this machine are near to each card.

An emulated card is near to none; the modules are divided over the machine's NUMA nodes, in order, as in a real box.
"""

from __future__ import annotations

import os
from pathlib import Path

from .box import Aip

NODES = Path("/sys/devices/system/node")


def affinity(aips: list[Aip], cpus: bool, memory: bool) -> str:
    """The table with the columns that were asked for."""
    nodes = numa_nodes()
    cards = max((aip.module for aip in aips), default=0) + 1
    headings = ["modID", *(["CPU Affinity"] if cpus else []), *(["NUMA Affinity"] if memory else [])]
    rows = [headings, ["-" * len(heading) for heading in headings]]
    for aip in aips:
        node, processors = nodes[aip.module * len(nodes) // max(cards, 8)]
        rows.append([str(aip.module), *([processors] if cpus else []), *([str(node)] if memory else [])])
    widths = [max(8 if column == 0 else 16, *(len(row[column]) + 2 for row in rows)) for column in range(len(headings))]
    return "\n".join(
        "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def numa_nodes() -> list[tuple[int, str]]:
    """The machine's NUMA nodes that have processors: number and processors, `0-39, 80-119`."""
    found = []
    for folder in NODES.glob("node[0-9]*"):
        try:
            processors = (folder / "cpulist").read_text().strip().replace(",", ", ")
        except OSError:
            continue  # taken offline
        if processors:
            found.append((int(folder.name.removeprefix("node")), processors))
    return sorted(found) or [(0, f"0-{(os.cpu_count() or 1) - 1}")]
