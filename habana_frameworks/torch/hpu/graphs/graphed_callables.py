"""Modules and functions with their forward and backward pass captured for given arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from device.backend import runtime
from device.errors import HpuError
from device.hpu_graph import HPUGraph
from device.streams import StreamContext, default_stream

from .graphed_function import Captured, Optionals, Tensors, graphed_function
from .module_state import ModuleState
from .naming import name_of

REMEDY = "call make_graphed_callables on it again, after it was moved"


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    warmups: int = 0,
    allow_unused_input: bool = False,
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
    dry_run: bool = False,
) -> Any:
    """The same callables, whose calls replay a forward graph, and a backward graph when gradients are asked for.

    A module is changed in place: in the training mode in which it was captured its forward replays, in the other it
    runs as it is. A function becomes another. Neither pass is run by the capture, whatever `dry_run` says, so that
    buffers such as running statistics, and the random state, are as without graphs; a card would run both once.

    Args:
        callables: a module or function, or a tuple of them in the order in which they will run. They take and return
            tensors, one or a tuple.
        sample_args: a tuple of tensors, or a tuple of such for a tuple of callables. They become the static inputs,
            which later calls overwrite, unless `disable_tensor_cache`.
        warmups: forward and backward passes to run before the capture.
        allow_unused_input: inputs and parameters without influence on the outputs have no gradient; else an error.
        asynchronous: replays do not wait for the launch.
        disable_tensor_cache: inputs and gradients of outputs are read where the caller has them, and not kept.
        dry_run: accepted; see above.

    Raises:
        RuntimeError: not in lazy mode; hooks on a module; buffers that require gradients; arguments or outputs that are
            no tensors; unused inputs; what cannot be captured. When called: arguments of other shapes or types; a
            module whose parameters were moved; a backward pass after a further forward pass.
    """
    single = not isinstance(callables, tuple)
    functions: tuple[Callable[..., Any], ...] = (callables,) if single else callables
    all_args: tuple[Tensors, ...] = (sample_args,) if single else sample_args
    if len(functions) != len(all_args):
        raise HpuError(f"make_graphed_callables: {len(functions)} callables and {len(all_args)} tuples of sample_args")
    for function, args in zip(functions, all_args, strict=True):
        check_callable(function, args)
    if warmups > 0:
        warm_up(functions, all_args, warmups)
    forwards = [
        _Forward(function, args, disable_tensor_cache) for function, args in zip(functions, all_args, strict=True)
    ]
    captured = [forward.with_backward(allow_unused_input, asynchronous) for forward in reversed(forwards)]
    graphed = tuple(
        _replaying(function, forward, one)
        for function, forward, one in zip(functions, forwards, reversed(captured), strict=True)
    )
    return graphed[0] if single else graphed


def capture_callable(
    function: Callable[..., Any],
    args: Tensors,
    module: nn.Module,
    remedy: str,
    allow_unused_input: bool = False,
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
) -> Callable[..., Any]:
    """`function`, which computes with `module`, as one that replays. `remedy`: for a graph that is stale."""
    forward = _Forward(function, args, disable_tensor_cache, module, remedy)
    return graphed_function(forward.with_backward(allow_unused_input, asynchronous), forward.was_tensor)


def check_callable(function: Any, args: Any) -> None:
    """Raises HpuError: it cannot be captured so."""
    name = name_of(function)
    if isinstance(function, nn.Module):
        if function._backward_hooks or function._forward_hooks or function._forward_pre_hooks:
            raise HpuError(f"{name} has hooks, which would run in the capture alone; register them on the result")
        trainable = [name for name, buffer in function.named_buffers() if buffer.requires_grad]
        if trainable:
            raise HpuError(f"buffer {trainable[0]!r} of {name} requires gradients; only parameters may")
    if not isinstance(args, tuple) or not all(isinstance(arg, torch.Tensor) for arg in args):
        raise HpuError(
            f"sample_args of {name} must be a tuple of tensors; keep other arguments inside the callable, or use "
            "ModuleCacher, which takes any"
        )


def warm_up(functions: Sequence[Callable[..., Any]], all_args: Sequence[Tensors], times: int) -> None:
    """Run forward and backward passes without capturing them."""
    with StreamContext(default_stream()):
        for function, args in zip(functions, all_args, strict=True):
            parameters = tuple(function.parameters()) if isinstance(function, nn.Module) else ()
            wanted = [tensor for tensor in (*args, *parameters) if tensor.requires_grad]
            for _ in range(times):
                outputs = function(*args)
                results = [
                    output
                    for output in ((outputs,) if isinstance(outputs, torch.Tensor) else outputs)
                    if output.requires_grad
                ]
                if results and wanted:
                    given = [torch.ones_like(output) for output in results]
                    torch.autograd.grad(results, wanted, given, allow_unused=True)
    runtime.card().flush_and_wait("synchronize")


def _captured(work: Callable[[], Any], lent: Tensors) -> tuple[HPUGraph, Any]:
    """`work` as a graph, without running it, and its result. `lent`: inputs that replays replace."""
    graph = HPUGraph()
    with StreamContext(default_stream()):
        graph.capture_begin(dry_run=True)
        try:
            graph.mark_user_inputs(lent)
            result = work()
            graph.capture_end()
        except BaseException:
            graph.reset()
            raise
    return graph, result


class _Forward:
    """A callable whose forward pass was captured."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Tensors,
        lends_inputs: bool,
        module: nn.Module | None = None,
        remedy: str = REMEDY,
    ) -> None:
        if module is None and isinstance(function, nn.Module):
            module = function
        self.name = name_of(function if module is None else module)
        self.args = args
        self.remedy = remedy
        self.lends_inputs = lends_inputs
        named = [] if module is None else list(module.named_parameters())
        self.parameters: Tensors = tuple(parameter for _, parameter in named)
        self.labels = [f"argument {index}" for index in range(len(args))] + [f"parameter {name!r}" for name, _ in named]
        self.state = None if module is None else ModuleState(module)
        self.graph, outputs = _captured(lambda: function(*args), args if lends_inputs else ())
        if self.state is not None:
            self.state.settle()
        self.was_tensor = isinstance(outputs, torch.Tensor)
        self.outputs: Tensors = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
        if not isinstance(self.outputs, tuple) or not all(isinstance(out, torch.Tensor) for out in self.outputs):
            raise HpuError(
                f"{self.name} returns {type(outputs).__name__}, and a graphed callable returns a tensor or a tuple of "
                "tensors; return these, or use ModuleCacher, which takes lists, dictionaries and dataclasses, too"
            )

    def with_backward(self, allow_unused_input: bool, asynchronous: bool) -> Captured:
        """Its backward pass is captured as well, if it has one."""
        surface = (*self.args, *self.parameters)
        wanted = [tensor for tensor in surface if tensor.requires_grad]
        results = [output for output in self.outputs if output.requires_grad]
        grad_outputs: Optionals = tuple(
            torch.empty_like(output) if output.requires_grad else None for output in self.outputs
        )
        given = [grad for grad in grad_outputs if grad is not None]
        backward: HPUGraph | None = None
        found: Optionals = ()
        if results and wanted:
            backward, found = _captured(
                lambda: torch.autograd.grad(results, wanted, given, only_inputs=True, allow_unused=True),
                (*given, *self.args) if self.lends_inputs else (),
            )
        gradients = iter(found)
        grad_inputs: Optionals = tuple(next(gradients, None) if tensor.requires_grad else None for tensor in surface)
        unused = [
            label
            for label, tensor, grad in zip(self.labels, surface, grad_inputs, strict=True)
            if tensor.requires_grad and grad is None
        ]
        if unused and not allow_unused_input:
            more = f" and {len(unused) - 1} more" if len(unused) > 1 else ""
            raise HpuError(
                f"{self.name}: {unused[0]}{more} requires a gradient and appears to not have been used in the graph; "
                "pass allow_unused_input=True if that is meant, or let it not require gradients"
            )
        return Captured(
            self.name,
            self.graph,
            backward,
            self.parameters,
            self.args,
            tuple(output.detach() for output in self.outputs),
            grad_outputs,
            grad_inputs,
            asynchronous,
            self.lends_inputs,
            self.state,
            self.remedy,
        )


def _replaying(function: Callable[..., Any], forward: _Forward, captured: Captured) -> Callable[..., Any]:
    replay = graphed_function(captured, forward.was_tensor)
    if not isinstance(function, nn.Module):
        return replay
    module, was_training, plain = function, function.training, function.forward

    def graphed_forward(*args: torch.Tensor) -> Any:
        return replay(*args) if module.training == was_training else plain(*args)

    module.forward = graphed_forward
    return module
