"""Dumps of compiled graphs: `<recipe>.json` to read and `<recipe>.dot` to draw with graphviz.

    dot -Tsvg .graph_dumps/graph_0_4f1c....dot -o graph.svg

Engines have colours, fused kernels are clusters with the operators inside, edges carry the bytes and the shape of what
flows. GRAPH_VISUALIZATION=1 turns dumps on.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..graph.ir import Graph
from .program import Engine
from .recipe import Recipe, ScheduledNode

FOLDER = ".graph_dumps"
COLOURS = {Engine.MME: "#f4b183", Engine.TPC: "#9dc3e6", Engine.DMA: "#c5e0b4", Engine.NIC: "#d9c3e8"}


class GraphDumps:
    """Writes recipes into a folder; `GraphDumps(None)` writes nothing.

    A folder that cannot be written is told once, with the remedy, and ends the dumps; training goes on.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def write(self, recipe: Recipe, graph: Graph | None = None) -> Path | None:
        """Write both files and return the path of the JSON one; None where nothing was written.

        `graph`: what the recipe was compiled from; it gives the operators' names and the shapes.
        """
        if self.folder is None:
            return None
        stem = re.sub(r"[^\w.-]", "_", recipe.name)
        path = self.folder / f"{stem}.json"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _write(path, json.dumps(recipe_json(recipe, graph), indent=1) + "\n")
            _write(self.folder / f"{stem}.dot", "\n".join(dot_lines(recipe, graph)) + "\n")
        except OSError as error:
            warnings.warn(
                f"GRAPH_VISUALIZATION: cannot write {error.filename or path}: {error.strerror or error}; make "
                f"{self.folder.absolute()} writable or unset GRAPH_VISUALIZATION. No more graphs are dumped.",
                RuntimeWarning,
            )
            self.folder = None
            return None
        return path


def _write(path: Path, text: str) -> None:
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        aside.write_text(text, encoding="utf-8")
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def recipe_json(recipe: Recipe, graph: Graph | None = None) -> dict[str, Any]:
    """A recipe as plain data with a name for everything; times in seconds, sizes in bytes."""
    offsets, on_chip = dict(recipe.offsets), set(recipe.sram_buffers)

    def place(number: int) -> str:
        buffer = recipe.program.buffers[number]
        if buffer.fused:
            return "fused"
        if number in on_chip:
            return "sram"
        return "workspace" if buffer.is_workspace else "pool"

    return {
        "name": recipe.name,
        "signature": recipe.signature,
        "card": recipe.card,
        "seconds": recipe.seconds,
        "compile_seconds": recipe.compile_seconds,
        "workspace_bytes": recipe.workspace_bytes,
        "output_bytes": recipe.output_bytes,
        "operators": [node.op for node in graph.nodes] if graph is not None else recipe.program.operators,
        "nodes": [_node_json(scheduled) for scheduled in recipe.nodes],
        "buffers": [
            {
                "nbytes": buffer.nbytes,
                "resident": buffer.resident,
                "live": buffer.live,
                "place": place(number),
                "offset": offsets.get(number),
            }
            for number, buffer in enumerate(recipe.program.buffers)
        ],
    }


def _node_json(scheduled: ScheduledNode) -> dict[str, Any]:
    node = scheduled.node
    return {
        "name": node.name,
        "engine": node.engine.value,
        "kernel": node.kernel,
        "kind": node.kind,
        "dtype": node.dtype,
        "shape": list(node.shape),
        "operations": node.operations,
        "start": scheduled.start,
        "seconds": scheduled.seconds,
        "bound": scheduled.bound,
        "reads": [[access.buffer, access.nbytes] for access in node.reads],
        "writes": [[access.buffer, access.nbytes] for access in node.writes],
        "sources": list(node.sources),
        "where": node.where,
    }


def dot_lines(recipe: Recipe, graph: Graph | None = None) -> Iterator[str]:
    """The graph as lines of graphviz dot text."""
    shapes = _shapes(graph)
    yield f"digraph {_quoted(recipe.name)} {{"
    yield f"  label={_quoted(f'{recipe.name} on {recipe.card}: {recipe.seconds * 1e6:.1f} us')};"
    yield '  node [shape=box, style="filled,rounded", fontname="Helvetica", fontsize=10];'
    yield '  edge [fontname="Helvetica", fontsize=8];'
    for number, scheduled in enumerate(recipe.nodes):
        yield from _box(number, scheduled, graph)
    writer: dict[int, int] = {}
    for number, scheduled in enumerate(recipe.nodes):
        drawn = set()
        for access in scheduled.node.reads:
            if access.buffer in drawn:
                continue
            drawn.add(access.buffer)
            label = _quoted(f"{_bytes(access.nbytes)}{shapes.get(access.buffer, '')}")
            if access.buffer in writer:
                yield f"  n{writer[access.buffer]} -> n{number} [label={label}];"
            else:
                yield f'  b{access.buffer} [label="buffer {access.buffer}", shape=ellipse, fillcolor="#eeeeee"];'
                yield f"  b{access.buffer} -> n{number} [label={label}];"
        for access in scheduled.node.writes:
            writer[access.buffer] = number
    yield "}"


def _box(number: int, scheduled: ScheduledNode, graph: Graph | None) -> Iterator[str]:
    node = scheduled.node
    size = "x".join(str(length) for length in node.shape)
    text = f"{node.name}\n{node.kernel} {size}\n{scheduled.seconds * 1e6:.2f} us, {scheduled.bound}"
    box = f'n{number} [label={_quoted(text)}, fillcolor="{COLOURS[node.engine]}"];'
    if graph is None or len(node.sources) < 2:
        yield f"  {box}"
        return
    yield f"  subgraph cluster_{number} {{"
    yield f'    label={_quoted(node.name)}; style="rounded,dashed"; fontname="Helvetica"; fontsize=9;'
    yield f"    {box}"
    for source in node.sources:
        yield f'    s{number}_{source} [label={_quoted(graph.nodes[source].op)}, fillcolor="#ffffff", fontsize=8];'
    names = [f"s{number}_{source}" for source in node.sources]
    yield f"    {' -> '.join([*names, f'n{number}'])} [style=dotted, arrowhead=none];"
    yield "  }"


def _shapes(graph: Graph | None) -> dict[int, str]:
    """The sizes of the first tensor on each buffer."""
    shapes: dict[int, str] = {}
    for node in graph.nodes if graph is not None else ():
        for operand in node.operands + node.results:
            shapes.setdefault(operand.buffer, f"\n{list(operand.window.sizes)}")
    return shapes


def _bytes(nbytes: int) -> str:
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} GiB"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
