"""The error when the card's memory runs out: what was asked for, what holds memory, and which operator needs most.

It begins as the real bridge's does, in one argument, so that clients which then retry with a smaller batch do so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ..graph.ir import Graph, Window
from .hbm import Hbm
from .holding import Copied, Holding, Shortage
from .pool import aligned
from .usage import Category

SHOWN = 10  # live tensors

GraphOf = Callable[[str], Graph | None]  # the graph of a recipe, by the recipe's name


@dataclass(frozen=True)
class LiveTensor:
    """A tensor that holds memory. Empty dtype and `where` where its origin is not known any more."""

    nbytes: int
    category: str
    dtype: str = ""
    sizes: tuple[int, ...] = ()
    where: str = ""


@dataclass(frozen=True)
class PeakOperator:
    """The operator of a graph during which most memory is in use, and the bytes of the graph's own tensors then."""

    operator: str
    where: str
    nbytes: int


def tensor_of(holding: Holding, graph: Graph | None, copy: Copied | None) -> LiveTensor:
    """What a block holds: the largest window that `graph` writes of that buffer, or what the host copied."""
    category = str(Category(holding.category))
    if graph is not None and 0 <= holding.slot < len(graph.buffers):
        best: tuple[Window, str] | None = None
        for node in graph.nodes:
            for operand in node.outputs:
                if operand.buffer == holding.slot and (best is None or operand.window.elements > best[0].elements):
                    best = operand.window, node.where
        if best is not None:
            return LiveTensor(holding.nbytes, category, best[0].dtype, best[0].sizes, best[1])
    if copy is not None:
        return LiveTensor(holding.nbytes, category, copy.dtype, copy.sizes, copy.where)
    return LiveTensor(holding.nbytes, category)


def peak_operator(graph: Graph) -> PeakOperator | None:
    """Where a graph needs most: outputs from their making to the end, workspace from first to last use.

    None for a graph that makes nothing. The operators' order is the recorded one; fusion may need less.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, node in enumerate(graph.nodes):
        for operand in (*node.operands, *node.outputs):
            if not graph.buffers[operand.buffer].resident:
                first.setdefault(operand.buffer, number)
                last[operand.buffer] = number
    changes = [0] * (len(graph.nodes) + 1)
    for buffer, number in first.items():
        size = aligned(graph.buffers[buffer].nbytes)
        changes[number] += size
        if not graph.buffers[buffer].live:
            changes[last[buffer] + 1] -= size
    best, current, peak = -1, 0, 0
    for number in range(len(graph.nodes)):
        current += changes[number]
        if current > peak:
            best, peak = number, current
    return PeakOperator(graph.nodes[best].op, graph.nodes[best].where, peak) if best >= 0 else None


def size_text(nbytes: int) -> str:
    """`3145728 bytes (3.00 MB)`, in powers of 1024."""
    for unit, scale in (("GB", 2**30), ("MB", 2**20), ("KB", 2**10)):
        if nbytes >= scale:
            return f"{nbytes} bytes ({nbytes / scale:.2f} {unit})"
    return f"{nbytes} bytes"


def message(
    shortage: Shortage, tensors: Sequence[LiveTensor], peak: PeakOperator | None, reason: str, rank: int
) -> str:
    """The text of the error; `reason` is what the card was about to do."""
    lines = [
        f"FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::{shortage.requested} "
        f"({shortage.requested / 2**20:g})MB [Rank:{rank}] while running {reason}",
        _situation(shortage),
    ]
    if tensors:
        lines.append("largest tensors that hold memory:")
    for tensor in tensors:
        what = f"{tensor.dtype} {list(tensor.sizes)}" if tensor.dtype else "unknown shape"
        where = f" from {tensor.where}" if tensor.where else ""
        lines.append(f"  {size_text(tensor.nbytes)}: {tensor.category}, {what}{where}")
    if peak is not None:
        where = f" at {peak.where}" if peak.where else ""
        lines.append(
            f"operator at the peak: {peak.operator}{where}; the graph's own take {size_text(peak.nbytes)} there"
        )
    lines.append(_remedy(shortage))
    return "\n".join(lines)


def _situation(shortage: Shortage) -> str:
    text = (
        f"requested {size_text(shortage.requested)}, free {size_text(shortage.free)} of {size_text(shortage.limit)}, "
        f"largest free block {size_text(shortage.largest)}"
    )
    if shortage.workspace is None:
        return text
    return f"{text}; requested as workspace, which takes {size_text(shortage.workspace)} now"


def _remedy(shortage: Shortage) -> str:
    if shortage.workspace is None and shortage.free >= shortage.requested:
        return "enough is free, but in pieces: leave PT_ENABLE_MEMORY_DEFRAGMENTATION on"
    if shortage.workspace is not None:
        return "use a smaller batch, mark steps more often so that graphs need less workspace, or use a larger card"
    return "use a smaller batch, free tensors that are not needed, or use a larger card"


def out_of_memory_error(
    memory: Hbm, shortage: Shortage, graph_of: GraphOf, graph: Graph | None, reason: str, rank: int
) -> torch.OutOfMemoryError:
    """The error to raise for `shortage`; `graph` is the one that was to run, None for a copy."""
    tensors = [
        tensor_of(holding, graph_of(holding.origin), memory.copy_at(address))
        for address, holding in memory.largest_holdings(SHOWN)
    ]
    return torch.OutOfMemoryError(message(shortage, tensors, peak_operator(graph) if graph else None, reason, rank))
