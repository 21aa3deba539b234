"""Compiled graphs as files for viewers."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from device import flags
from device.compiler import graph_def
from device.errors import ConfigurationError

CODE = """
import torch, habana_frameworks.torch.core as htcore
x = torch.ones(2, 3).to("hpu")
print((x * 2 + 1).sum().item())
"""


def test_lazy_mode_writes_graphs_where_that_is_asked_for(script, tmp_path: Path) -> None:
    script(CODE, PT_HPU_LAZY_MODE="1", PT_HPU_GRAPH_DUMP="1", PT_HPU_GRAPH_DUMP_PREFIX=str(tmp_path / "dumps"))
    text = "".join(path.read_text() for path in (tmp_path / "dumps" / "rank0").glob("*.pbtxt"))
    for part in ('op: "aten::mul', 'op: "Placeholder"', "dim { size: 2 } dim { size: 3 }", "script.py:4"):
        assert part in text


def test_graphml_of_eager_operators_by_rank(script, tmp_path: Path) -> None:
    script(
        CODE,
        PT_HPU_LAZY_MODE="0",
        RANK="37",
        PT_HPU_GRAPH_DUMP_MODE="eager",
        PT_HPU_GRAPH_DUMP_FORMAT="graphml",
        PT_HPU_GRAPH_DUMP_PREFIX=str(tmp_path / "dumps"),
    )
    files = list((tmp_path / "dumps" / "rank37").glob("*.graphml"))
    assert files
    for file in files:
        ElementTree.parse(file)


@pytest.mark.parametrize(("name", "value"), [("PT_HPU_GRAPH_DUMP_MODE", "some"), ("PT_HPU_GRAPH_DUMP_FORMAT", "jpeg")])
def test_a_choice_that_there_is_not(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setitem(flags._values, name, value)
    with pytest.raises(ConfigurationError, match=f"{name}='{value}'"):
        graph_def.wanted(lazy=False, compiled=True)
        graph_def.write(None, "graph")  # type: ignore[arg-type]
