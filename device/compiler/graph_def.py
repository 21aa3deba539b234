"""Compiled graphs as TensorFlow GraphDef text (`.pbtxt`), GraphML or SVG, as viewers of the bridge's dumps take them.

PT_HPU_GRAPH_DUMP=1 or more      lazy mode: every compiled graph
PT_HPU_GRAPH_DUMP_MODE           outside lazy mode: `all`, `compile` or `compile_fx` (clusters of torch.compile),
                                 `eager` (single operators)
PT_HPU_GRAPH_DUMP_FORMAT         pbtxt (default), graphml or svg (graphviz's `dot` has to be there)
PT_HPU_GRAPH_DUMP_PREFIX         folder, .graph_dumps; files stand in `rank<N>` below it
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import quoteattr

from .. import flags, modules
from ..errors import ConfigurationError
from ..graph.ir import Graph

COMPILED = ("all", "compile", "compile_fx")
EAGER = ("all", "eager")
MODES = (*COMPILED, "eager", "")


def wanted(lazy: bool, compiled: bool) -> bool:
    """Whether a graph is to be written: a compiled one, or a single operator of eager mode.

    Raises:
        ConfigurationError: PT_HPU_GRAPH_DUMP_MODE names no mode.
    """
    if lazy:
        return compiled and flags.get("PT_HPU_GRAPH_DUMP") > 0
    mode = flags.get("PT_HPU_GRAPH_DUMP_MODE")
    if mode not in MODES:
        raise ConfigurationError(f"PT_HPU_GRAPH_DUMP_MODE={mode!r} is no mode; use all, compile, compile_fx or eager")
    return mode in (COMPILED if compiled else EAGER)


def write(graph: Graph, name: str) -> Path:
    """Write a graph and return its path.

    Raises:
        ConfigurationError: PT_HPU_GRAPH_DUMP_FORMAT names no format, or svg where graphviz is missing.
        OSError: the file cannot be written.
    """
    form = flags.get("PT_HPU_GRAPH_DUMP_FORMAT")
    render = _FORMATS.get(form)
    if render is None:
        raise ConfigurationError(f"PT_HPU_GRAPH_DUMP_FORMAT={form!r} is no format; use {', '.join(_FORMATS)}")
    folder = Path(flags.get("PT_HPU_GRAPH_DUMP_PREFIX")) / f"rank{modules.own_rank()}"
    folder.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"[^\w.-]", "_", name)
    path = folder / f"{stem}.{form}"
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.write_text(render(graph))
    os.replace(aside, path)
    return path


def write_if_wanted(graph: Graph, name: str, lazy: bool, compiled: bool) -> None:
    """Write a graph where that is asked for; a folder that cannot be written is told, and training goes on."""
    if not wanted(lazy, compiled):
        return
    try:
        write(graph, name)
    except OSError as error:
        warnings.warn(
            f"PT_HPU_GRAPH_DUMP: cannot write {error.filename}: {error.strerror}; choose another "
            "PT_HPU_GRAPH_DUMP_PREFIX",
            RuntimeWarning,
        )


def _names(graph: Graph) -> list[str]:
    return [f"{node.op.removeprefix('aten::').replace('.', '_')}_{number}" for number, node in enumerate(graph.nodes)]


def _makers(graph: Graph) -> list[list[str]]:
    """For each node the names of what it takes: the node that wrote a buffer last, or the buffer as an input."""
    names = _names(graph)
    last: dict[int, str] = {}
    taken = []
    for name, node in zip(names, graph.nodes, strict=True):
        sources = [last.get(operand.buffer, f"input_{operand.buffer}") for operand in node.inputs]
        taken.append(list(dict.fromkeys(sources)))
        last.update({operand.buffer: name for operand in node.outputs})
    return taken


def _inputs(graph: Graph) -> list[str]:
    names = [name for sources in _makers(graph) for name in sources if name.startswith("input_")]
    return list(dict.fromkeys(names))


def _pbtxt(graph: Graph) -> str:
    parts = [f'node {{\n  name: "{name}"\n  op: "Placeholder"\n}}\n' for name in _inputs(graph)]
    for name, node, sources in zip(_names(graph), graph.nodes, _makers(graph), strict=True):
        lines = [f'  name: "{name}"', f'  op: "{node.op}"', *(f'  input: "{source}"' for source in sources)]
        for operand in node.outputs[:1]:
            sizes = "".join(f" dim {{ size: {size} }}" for size in operand.window.sizes)
            lines.append(f'  attr {{ key: "_output_shapes" value {{ list {{ shape {{{sizes} }} }} }} }}')
            lines.append(f'  attr {{ key: "dtype" value {{ s: "{operand.window.dtype}" }} }}')
        if node.where:
            where = node.where.replace("\\", "/").replace('"', "'")
            lines.append(f'  attr {{ key: "source" value {{ s: "{where}" }} }}')
        parts.append("node {\n" + "\n".join(lines) + "\n}\n")
    return "".join(parts)


def _graphml(graph: Graph) -> str:
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">']
    lines += ['<key id="op" for="node" attr.name="op" attr.type="string"/>', '<graph edgedefault="directed">']
    lines += [f"<node id={quoteattr(name)}/>" for name in _inputs(graph)]
    for name, node, sources in zip(_names(graph), graph.nodes, _makers(graph), strict=True):
        lines.append(f'<node id={quoteattr(name)}><data key="op">{node.op}</data></node>')
        lines += [f"<edge source={quoteattr(source)} target={quoteattr(name)}/>" for source in sources]
    return "\n".join([*lines, "</graph>", "</graphml>", ""])


def _svg(graph: Graph) -> str:
    dot = shutil.which("dot")
    if dot is None:
        raise ConfigurationError(
            "PT_HPU_GRAPH_DUMP_FORMAT=svg needs graphviz's dot (Debian/Ubuntu: apt-get install graphviz); use pbtxt "
            "or graphml"
        )
    edges = [
        f'"{source}" -> "{name}";'
        for name, sources in zip(_names(graph), _makers(graph), strict=True)
        for source in sources
    ]
    text = "\n".join(["digraph {", *edges, "}"])
    return subprocess.run([dot, "-Tsvg"], input=text, capture_output=True, text=True, check=True).stdout


_FORMATS: dict[str, Callable[[Graph], str]] = {"pbtxt": _pbtxt, "graphml": _graphml, "svg": _svg}
