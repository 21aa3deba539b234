"""A traced program cut into clusters, each of which becomes one recipe, and operators between them that run one by one.

Every operator has a level: even levels are clusters, odd ones lie between them. An operator is on the lowest level of
its kind that is not below its operands' levels, so there are as few clusters as the operators outside them allow. What
writes to a tensor stays behind all that was before it, random operators stay in order, and so do collectives: with
`enable_allreduce_graph_split` a collective also ends the cluster before it, and is waited for as late as its users
allow, so that it runs beside the clusters that follow.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from .placement import Place, is_collective, is_random, is_wait, place_of, writes

BEFORE = -1  # level of what comes before the first cluster


@dataclass
class _Order:
    """What an operator has to stay behind beside its operands."""

    highest: int = BEFORE
    written: int = BEFORE
    random: int = BEFORE
    collective: int = BEFORE
    split: int = BEFORE
    levels: dict[Node, int] = field(default_factory=dict)

    def below(self, node: Node) -> int:
        """The level that a node must not be below."""
        floor = max((self.levels[operand] for operand in node.all_input_nodes), default=BEFORE)
        floor = max(floor, self.written)
        if writes(node):
            floor = max(floor, self.highest)
        if is_random(node):
            floor = max(floor, self.random)
        if is_collective(node):
            floor = max(floor, self.collective)
        return floor

    def put(self, node: Node, level: int) -> None:
        self.levels[node] = level
        self.highest = max(self.highest, level)
        if writes(node):
            self.written = max(self.written, level)
        if is_random(node):
            self.random = level
        if is_collective(node):
            self.collective = max(self.collective, level)


def _levels(graph: Graph, split_at_collectives: bool) -> dict[Node, int]:
    order = _Order()
    for node in graph.nodes:
        if node.op == "output":
            continue
        if node.op != "call_function":
            order.levels[node] = BEFORE
            continue
        floor = order.below(node)
        place = place_of(node)
        if place is Place.CARD:
            floor = max(floor, order.split)
            level = floor if floor % 2 == 0 else floor + 1
        elif place is Place.HOST:
            level = floor if floor % 2 else floor + 1
        else:
            level = floor
        order.put(node, level)
        if split_at_collectives and is_collective(node) and not is_wait(node):
            order.split = level
    return order.levels


def _wait_late(graph: Graph, levels: dict[Node, int]) -> None:
    """Move waits for collectives down to their first user."""
    for node in graph.nodes:
        if node.op != "call_function" or not is_wait(node):
            continue
        users = [levels[user] for user in node.users if user.op != "output"]
        first = min(users, default=max(levels.values(), default=BEFORE))
        levels[node] = max(levels[node], first if first % 2 else first - 1)


def _in_order(nodes: Iterable[Node], levels: dict[Node, int]) -> list[Node]:
    return sorted(nodes, key=lambda node: levels[node])  # stable: the program's order within a level


def _computes(nodes: Iterable[Node]) -> bool:
    return any(isinstance(node.target, torch._ops.OpOverload) for node in nodes)


def _cluster_of(module: GraphModule, nodes: list[Node]) -> tuple[GraphModule, list[Node], list[Node]]:
    """(the nodes as a module, what it takes, what others take from it)."""
    inside = set(nodes)
    graph = Graph()
    copies: dict[Node, Node] = {}
    taken: list[Node] = []
    for node in nodes:
        for operand in node.all_input_nodes:
            if operand not in inside and operand not in copies:
                copies[operand] = graph.placeholder(operand.name)
                copies[operand].meta = dict(operand.meta)
                taken.append(operand)
    for node in nodes:
        copies[node] = graph.node_copy(node, lambda operand: copies[operand])
    given = [node for node in nodes if any(user not in inside for user in node.users)]
    graph.output(tuple(copies[node] for node in given))
    return GraphModule(module, graph), taken, given


def partition(module: GraphModule, split_at_collectives: bool) -> GraphModule:
    """The same program with `call_module` nodes for its clusters; their modules are called `cluster_0` and so on.

    A cluster gives a tuple. Nothing of `module` is changed.
    """
    levels = _levels(module.graph, split_at_collectives)
    if split_at_collectives:
        _wait_late(module.graph, levels)
    outer = Graph()
    held: dict[str, Any] = {}  # clusters, and what the program has as attributes
    values: dict[Node, Node] = {}
    body: list[Node] = []
    output = None
    for node in module.graph.nodes:
        if node.op == "output":
            output = node
        elif node.op == "call_function":
            body.append(node)
        else:
            values[node] = outer.node_copy(node, lambda operand: values[operand])
            if node.op == "get_attr":
                held[str(node.target)] = operator.attrgetter(str(node.target))(module)
    ordered = _in_order(body, levels)
    clusters = 0
    start = 0
    while start < len(ordered):
        level = levels[ordered[start]]
        end = start
        while end < len(ordered) and levels[ordered[end]] == level:
            end += 1
        group, start = ordered[start:end], end
        if level % 2 or not _computes(group):
            for node in group:
                values[node] = outer.node_copy(node, lambda operand: values[operand])
            continue
        name = f"cluster_{clusters}"
        clusters += 1
        cluster, taken, given = _cluster_of(module, group)
        held[name] = cluster
        call = outer.call_module(name, tuple(values[operand] for operand in taken))
        call.meta["clustered"] = group
        for number, node in enumerate(given):
            values[node] = outer.call_function(operator.getitem, (call, number))
            values[node].meta = dict(node.meta)
    if output is not None:
        outer.node_copy(output, lambda operand: values[operand])
    outer.lint()
    return GraphModule(held, outer)
