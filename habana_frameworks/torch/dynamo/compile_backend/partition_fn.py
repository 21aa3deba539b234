"""How a traced training step is divided into forward and backward."""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch.partitioners import default_partition
from torch.fx import GraphModule, Node

from . import config
from .placement import tensors, writes


def _is_written(node: Node) -> bool:
    """Whether a tensor, or a view of it, is written later."""
    for user in node.users:
        if user.op != "call_function":
            continue
        if writes(user) or (_may_alias(user) and _is_written(user)):
            return True
    return False


def _may_alias(node: Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.is_view


def remove_unnecessary_clone(module: GraphModule) -> GraphModule:
    """Leave out copies of tensors that have the same layout and that nobody writes."""
    clones = module.graph.find_nodes(op="call_function", target=torch.ops.aten.clone.default)
    for node in clones:
        source = node.all_input_nodes[0]
        before, after = next(tensors(source), None), next(tensors(node), None)
        if before is None or after is None or before.stride() != after.stride():
            continue
        if _is_written(source) or _is_written(node) or any(user.op == "output" for user in node.users):
            continue
        node.replace_all_uses_with(source)
        module.graph.erase_node(node)
    module.recompile()
    return module


def hpu_partition(joint_module: GraphModule, joint_inputs: Any, **options: Any) -> tuple[GraphModule, GraphModule]:
    """(forward, backward) of a joint graph: what the backward needs is kept, but for checkpointed regions."""
    if config.remove_unnecessary_clones:
        joint_module = remove_unnecessary_clone(joint_module)
    forward, backward = default_partition(joint_module, joint_inputs, **options)
    return forward, backward
