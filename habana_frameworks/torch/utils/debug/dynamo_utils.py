"""Which operators of compiled programs went into recipes, and which run one by one."""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch


@dataclass
class OpCount:
    """How often an operator is in a recipe, and how often it runs by itself."""

    graph_count: int = 0
    eager_count: int = 0

    def __str__(self) -> str:
        return f"{{graph_count = {self.graph_count}, eager_count = {self.eager_count}}}"

    __repr__ = __str__


class FxGraphAnalyzer:
    """`with FxGraphAnalyzer() as fga:` counts the operators of what is compiled meanwhile.

    Args:
        reset_dynamo: forget what was compiled before, so that everything is compiled anew.
        capture_non_hpu_output: count operators whose result is not on the card, too.
    """

    OpCount = OpCount

    def __init__(self, reset_dynamo: bool = False, capture_non_hpu_output: bool = False) -> None:
        self.capture_non_hpu_output = capture_non_hpu_output
        self.reset_dynamo = reset_dynamo
        self.graphs: list[dict[str, OpCount]] = []
        self.partition_num = 0

    def __enter__(self) -> FxGraphAnalyzer:
        _active.append(self)
        dynamo = sys.modules.get("torch._dynamo")
        if self.reset_dynamo and dynamo is not None:
            dynamo.reset()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _active.remove(self)

    def get_ops_summary(self) -> list[dict[str, Any]]:
        """For each compiled graph: operators by name, such as "torch.ops.aten.add.Tensor", with their counts."""
        return self.graphs

    def get_partition_num(self) -> int:
        """Number of recipes' clusters in all graphs."""
        return self.partition_num

    def add(self, program: torch.fx.GraphModule) -> None:
        """Count one compiled graph. Its clusters are its `call_module` nodes."""
        counts: defaultdict[str, OpCount] = defaultdict(OpCount)
        for node in program.graph.nodes:
            if node.op == "call_module":
                self.partition_num += 1
                for inner in node.meta["clustered"]:
                    if self._counts(inner):
                        counts[_name(inner)].graph_count += 1
            elif node.op == "call_function" and not _is_part_of_cluster(node) and self._counts(node):
                counts[_name(node)].eager_count += 1
        self.graphs.append(dict(counts))

    def _counts(self, node: torch.fx.Node) -> bool:
        leaves = torch.utils._pytree.tree_leaves(node.meta.get("val"))
        devices = {value.device.type for value in leaves if isinstance(value, torch.Tensor)}
        return "hpu" in devices or (self.capture_non_hpu_output and node.op == "call_function")


def _is_part_of_cluster(node: torch.fx.Node) -> bool:
    operands = node.all_input_nodes
    return len(operands) == 1 and operands[0].op == "call_module"


def _name(node: torch.fx.Node) -> str:
    return str(node._pretty_print_target(node.target))


_active: list[FxGraphAnalyzer] = []


def compiled(program: Any) -> None:
    """A graph was compiled: whoever counts is told."""
    for analyzer in _active:
        analyzer.add(program)
