"""Where each operator of a traced program runs: inside a recipe, or from the host, one by one."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from enum import Enum
from typing import Any

import torch
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from .shared_layer import hpu_fallback_op_list

SPACES = ("aten", "prims", "hpu", "quantized_decomposed")
"""Namespaces of operators that do nothing but compute: those of a script's own may do anything, and run one by one."""

COLLECTIVES = ("_c10d_functional", "_c10d_functional_autograd", "c10d", "c10d_functional")

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_DATA_DEPENDENT = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


class Place(Enum):
    """CARD: in a recipe. HOST: one by one. EITHER: it costs nothing and goes with its neighbours."""

    CARD = "card"
    HOST = "host"
    EITHER = "either"


def values(node: Node) -> list[Any]:
    """What a node gives, as traced: tensors and symbols."""
    return tree_leaves(node.meta.get("val", node.meta.get("example_value")))


def tensors(node: Node) -> Iterator[torch.Tensor]:
    """The traced tensors that a node gives."""
    return (value for value in values(node) if isinstance(value, torch.Tensor))


def on_card(node: Node) -> bool:
    """Whether a node gives a tensor on the card, or one of its operands is one where it gives none."""
    given = list(tensors(node))
    if not given:
        given = [tensor for operand in node.all_input_nodes for tensor in tensors(operand)]
    return any(tensor.device.type == "hpu" for tensor in given)


def is_collective(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace in COLLECTIVES


def is_wait(node: Node) -> bool:
    return is_collective(node) and "wait_tensor" in str(node.target)


def is_random(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def writes(node: Node) -> bool:
    """Whether it changes one of its operands."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _is_number(node: Node) -> bool:
    return all(isinstance(value, (*_SYMBOLIC, int, float, bool)) for value in values(node)) and bool(values(node))


def _fits(tensor: torch.Tensor) -> bool:
    """Tensors on the card, and numbers in tensors on the host, which travel beside the recipe."""
    return tensor.device.type == "hpu" or (tensor.device.type == "cpu" and tensor.dim() == 0)


def refusal(node: Node) -> str:
    """Why an operator on tensors of the card cannot be part of a recipe; "" where it can."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return "it is no operator"
    if target.namespace in COLLECTIVES:
        return "it is a collective"
    if target.namespace not in SPACES:
        return "it is an operator of the script's own"
    base = target._schema.name.partition("::")[2]
    if base in hpu_fallback_op_list or base.rstrip("_") in hpu_fallback_op_list:
        return "the card does not have it"
    if any(tag in target.tags for tag in _DATA_DEPENDENT):
        return "the shape of its result, or the result itself, depends on data"
    if any(tensor.device.type != "hpu" for tensor in tensors(node)):
        return "its result is on the host"
    if not all(_fits(tensor) for operand in node.all_input_nodes for tensor in tensors(operand)):
        return "it takes a tensor from the host"
    if base == "_to_copy" or base.startswith("copy"):
        sources = [tensor for operand in node.all_input_nodes for tensor in tensors(operand)]
        if any(tensor.device.type != "hpu" for tensor in sources):
            return "it copies from the host"
    return ""


def place_of(node: Node) -> Place:
    """Where a `call_function` node runs."""
    if node.target is operator.getitem or _is_number(node):
        return Place.EITHER if not isinstance(node.target, torch._ops.OpOverload) or _is_shape(node) else Place.HOST
    if not on_card(node):
        return Place.HOST
    return Place.HOST if refusal(node) else Place.CARD


def _is_shape(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and "sym_" in node.target._schema.name
