"""What becomes of a traced graph: forward of a training step, backward, or inference."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from torch.fx import GraphModule, Node

from device.errors import HpuError

from ...utils.debug import dynamo_utils
from . import config
from .partition import partition
from .placement import Place, is_collective, on_card, place_of, refusal
from .program import Compiled, compiled_program

_numbers = itertools.count()


def _outside(module: GraphModule) -> list[Node]:
    """Operators on tensors of the card that no recipe holds."""
    return [
        node
        for node in module.graph.nodes
        if node.op == "call_function" and place_of(node) is Place.HOST and on_card(node) and not is_collective(node)
    ]


def _check_fallback(module: GraphModule) -> None:
    for node in _outside(module):
        reason = refusal(node)
        if reason in ("the card does not have it",):
            raise HpuError(
                f"hpu_backend cannot put {node.target} into a recipe: {reason}, and use_eager_fallback is off. "
                "Turn it on (PT_HPU_USE_EAGER_FALLBACK=1), or use another operator"
            )


def hpu_compiler_inner(
    graph_module: GraphModule, example_inputs: Sequence[Any], is_training: bool, is_backward: bool
) -> Compiled:
    """The program behind one traced graph.

    Raises:
        HpuError: an operator has to run by itself, and `use_eager_fallback` is off.
    """
    kind = ("backward" if is_backward else "forward") if is_training else "inference"
    name = f"torch.compile {kind} {next(_numbers)}"
    if not config.use_eager_fallback:
        _check_fallback(graph_module)
    split = config.enable_allreduce_graph_split and any(
        node.op == "call_function" and is_collective(node) for node in graph_module.graph.nodes
    )
    partitioned = partition(graph_module, split)
    dynamo_utils.compiled(partitioned)
    if not config.use_compiled_recipes:
        return one_by_one(graph_module)
    return compiled_program(partitioned, name, config.force_static_compile)


def one_by_one(module: GraphModule) -> Compiled:
    """The traced graph as it is, each operator by itself as in eager mode."""

    def run(arguments: list[Any]) -> Any:
        taken = list(arguments)
        arguments.clear()
        return module.forward(*taken)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def hpu_training_compiler_fw(graph_module: GraphModule, example_inputs: Sequence[Any]) -> Compiled:
    """Of the forward pass of a training step."""
    return hpu_compiler_inner(graph_module, example_inputs, True, False)


def hpu_training_compiler_bw(graph_module: GraphModule, example_inputs: Sequence[Any]) -> Compiled:
    """Of a backward pass."""
    return hpu_compiler_inner(graph_module, example_inputs, True, True)


def hpu_inference_compiler(graph_module: GraphModule, example_inputs: Sequence[Any]) -> Compiled:
    """Of a forward pass without gradients."""
    return hpu_compiler_inner(graph_module, example_inputs, False, False)
