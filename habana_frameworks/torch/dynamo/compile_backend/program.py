"""A partitioned program that runs on the card: each cluster is laid over its inputs' memory by one native call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.graph import _BoxedCodeGen

from device.backend import runtime
from device.backend.untraced import untraced
from device.cluster import Cluster
from device.graph import location
from device.recipes import Origin

Compiled = Callable[[list[Any]], Any]


class _Body(Interpreter):
    """Runs a cluster's operators one after another, each on the user's line that it was traced from."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self._lines = {node: location.traced(node.meta.get("stack_trace") or "") for node in module.graph.nodes}
        output = next(iter(module.graph.find_nodes(op="output")))
        self._layouts = [_layout(node) for node in output.args[0]]

    def run_node(self, n: Node) -> Any:
        location.say(self._lines[n])
        return super().run_node(n)

    def __call__(self, *inputs: Any) -> Any:
        before = location.said()
        try:
            with torch.no_grad():
                outputs = self.run(*inputs, enable_io_processing=False)
                return [_laid_out(output, layout) for output, layout in zip(outputs, self._layouts, strict=True)]
        finally:
            location.say(before)
            self.env.clear()
            self.args_iter = iter(())  # a tuple's iterator holds the tuple, and so the inputs' memory


def _layout(node: Any) -> tuple[int, ...] | None:
    """The strides that were traced, where they are numbers and matter."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    strides = value.stride()
    return tuple(strides) if all(isinstance(item, int) for item in (*strides, *value.shape)) else None


def _laid_out(value: Any, strides: tuple[int, ...] | None) -> Any:
    """A result in the layout that what follows was traced with."""
    if strides is None or not isinstance(value, torch.Tensor) or value.stride() == strides or value.numel() < 2:
        return value
    if all(
        size == 1 or mine == wanted for size, mine, wanted in zip(value.shape, value.stride(), strides, strict=True)
    ):
        return value
    return torch.empty_strided(value.shape, strides, dtype=value.dtype, device=value.device).copy_(value)


class ClusterModule(torch.nn.Module):
    """A cluster in its place in the program."""

    def __init__(self, module: GraphModule, origin: Origin) -> None:
        super().__init__()
        self.traced = module
        self._cluster = Cluster(_Body(module), origin, runtime.card, runtime.bridge)

    def __call__(self, *inputs: Any) -> Any:
        return self._cluster(*inputs)


def _is_dynamic(module: GraphModule) -> bool:
    return any(
        isinstance(value, torch.SymInt) or (isinstance(value, torch.Tensor) and _has_symbols(value))
        for node in module.graph.nodes
        if node.op == "placeholder"
        for value in (node.meta.get("val"),)
    )


def _has_symbols(tensor: torch.Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) for size in tensor.shape)


def compiled_program(partitioned: GraphModule, name: str, force_static: bool) -> Compiled:
    """A function of the boxed calling convention: it takes its arguments in a list, which it empties.

    `name` says in the report what the recipes belong to.
    """
    for node in partitioned.graph.nodes:
        if node.op == "call_module":
            cluster = partitioned.get_submodule(str(node.target))
            if not isinstance(cluster, GraphModule):
                continue
            dynamic = False if force_static else _is_dynamic(cluster) or None
            origin = Origin(f"{name} {node.target}", dynamic)
            setattr(partitioned, str(node.target), ClusterModule(cluster, origin))
    partitioned.graph.set_codegen(_BoxedCodeGen())
    partitioned.recompile()
    forward = untraced(type(partitioned).forward)

    def run(arguments: list[Any]) -> Any:
        return forward(partitioned, arguments)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
