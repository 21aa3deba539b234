"""GRAPH_VISUALIZATION: a recipe as JSON and as graphviz text."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from device.compiler.compile import compile_graph
from device.compiler.program import Engine
from device.compiler.visualization import COLOURS, GraphDumps
from device.graph.ir import Graph
from device.spec import load_card

from .recorded_graphs import Recording

GAUDI2 = load_card("gaudi2")


def small_graph() -> Graph:
    recording = Recording()
    hidden = recording.matmul(recording.tensor(8, 16), recording.tensor(16, 8))
    return recording.keep(recording.elementwise("exp", recording.elementwise("relu", hidden)))


def test_both_files_tell_of_every_node(tmp_path: Path) -> None:
    graph = small_graph()
    recipe = compile_graph(graph, GAUDI2)
    path = GraphDumps(tmp_path / ".graph_dumps").write(recipe, graph)
    assert path == tmp_path / ".graph_dumps" / "graph_0123456789abcdef.json"
    plain = json.loads(path.read_text())
    assert plain["operators"] == ["aten::mm", "aten::relu", "aten::exp"]
    assert [node["kernel"] for node in plain["nodes"]] == ["gemm", "fused_kernel_0_f32"]
    assert plain["nodes"][1]["sources"] == [1, 2]
    assert [buffer["place"] for buffer in plain["buffers"]] == ["pool", "pool", "sram", "fused", "pool"]
    text = path.with_suffix(".dot").read_text()
    assert text.startswith('digraph "graph_0123456789abcdef" {') and text.endswith("}\n")
    assert COLOURS[Engine.MME] in text and COLOURS[Engine.TPC] in text
    assert 'n0 -> n1 [label="256 B\\n[8, 8]"];' in text
    assert "subgraph cluster_1 {" in text and '"aten::exp"' in text
    assert sorted(entry.name for entry in path.parent.iterdir()) == [path.with_suffix(".dot").name, path.name]


def test_off_is_off(tmp_path: Path) -> None:
    assert GraphDumps(None).write(compile_graph(small_graph(), GAUDI2)) is None


def test_odd_names_stay_in_the_folder(tmp_path: Path) -> None:
    recipe = compile_graph(small_graph(), GAUDI2)
    path = GraphDumps(tmp_path).write(type(recipe)(**{**vars(recipe), "name": "aten::add/../x"}))
    assert path == tmp_path / "aten__add_.._x.json"


def test_a_folder_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    dumps = GraphDumps(tmp_path / "file" / "dumps")
    with pytest.warns(RuntimeWarning, match=r"GRAPH_VISUALIZATION: cannot write .*make .* writable or unset"):
        assert dumps.write(compile_graph(small_graph(), GAUDI2)) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dumps.write(compile_graph(small_graph(), GAUDI2)) is None
