"""The replay of a captured forward and backward pass as a function that autograd knows."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from device import strict
from device.errors import HpuError
from device.hpu_graph import HPUGraph

from . import strict_calls as calls
from .containers import same_window
from .module_state import ModuleState

Tensors = tuple[torch.Tensor, ...]
Optionals = tuple["torch.Tensor | None", ...]


@dataclass
class Captured:
    """A callable with its forward and backward graph, and their static tensors."""

    name: str
    forward: HPUGraph
    backward: HPUGraph | None
    parameters: Tensors
    inputs: Tensors
    outputs: Tensors
    grad_outputs: Optionals
    grad_inputs: Optionals
    asynchronous: bool
    lends_inputs: bool
    state: ModuleState | None
    remedy: str
    calls: int = 0
    handed_out: list[weakref.ref[torch.Tensor]] = field(default_factory=list)
    leaves: list[weakref.ref[torch.Tensor]] = field(default_factory=list)

    # -- forward --------------------------------------------------------------------------------------------------

    def check(self, inputs: Sequence[Any]) -> None:
        """Raises HpuError: the call does not fit what was captured."""
        if len(inputs) != len(self.inputs):
            raise HpuError(
                f"{self.name} was captured with {len(self.inputs)} tensors and is called with {len(inputs)}; "
                "call it with as many"
            )
        for index, (static, given) in enumerate(zip(self.inputs, inputs, strict=True)):
            if not isinstance(given, torch.Tensor):
                raise HpuError(f"{self.name}: argument {index} is {type(given).__name__}; pass a tensor")
            about = [(tensor.shape, tensor.dtype, tensor.device.type) for tensor in (static, given)]
            if about[0] != about[1]:
                described = [f"{tuple(shape)} {dtype} on {device}" for shape, dtype, device in about]
                raise HpuError(
                    f"{self.name}: argument {index} is {described[1]}, and was captured as {described[0]}; capture "
                    "another graph for it with make_graphed_callables, or use ModuleCacher, which does so by itself"
                )
        if self.state is not None:
            self.state.check(self.remedy)

    def run_forward(self, inputs: Tensors) -> None:
        """The outputs have the values for those inputs."""
        self.calls += 1
        direct = self.forward.get_user_input_match_indices() if self.lends_inputs else set()
        copied = [
            (static, given)
            for index, (static, given) in enumerate(zip(self.inputs, inputs, strict=True))
            if index not in direct and not same_window(static, given)
        ]
        for static, given in copied:
            static.copy_(given)
        if self.lends_inputs:
            self.forward.replayV3(inputs, self.asynchronous)
        else:
            self.forward.replay(self.asynchronous)
        if strict.enabled():
            calls.overwrite([*(static for static, _ in copied), *self.outputs])

    # -- backward -------------------------------------------------------------------------------------------------

    def run_backward(self, call: int, grads: Optionals, saved: Tensors) -> Optionals:
        """The gradients of the forward pass number `call`."""
        if self.backward is None:
            return self.grad_inputs
        if call != self.calls:
            raise HpuError(
                f"{self.name}: backward() of an earlier call, after {self.calls - call} more: each replay overwrites "
                "what the one before kept for its backward pass. Call backward() before the next forward pass, or "
                "capture another copy of the module for calls that are open at the same time"
            )
        self._rescue()
        pairs = [(static, given) for static, given in zip(self.grad_outputs, grads, strict=True) if static is not None]
        given_grads = tuple(torch.zeros_like(static) if given is None else given for static, given in pairs)
        direct = self.backward.get_user_input_match_indices() if self.lends_inputs else set()
        for index, ((static, _), given) in enumerate(zip(pairs, given_grads, strict=True)):
            if index not in direct:
                static.copy_(given)
        if self.lends_inputs:
            self.backward.replayV3((*given_grads, *saved), self.asynchronous)
        else:
            self.backward.replay(self.asynchronous)
        handed = tuple(None if grad is None else grad.detach() for grad in self.grad_inputs)
        self.handed_out = [weakref.ref(grad) for grad in handed if grad is not None]
        return handed

    def remember_leaves(self, inputs: Tensors) -> None:
        """Inputs whose `.grad` the backward pass will set."""
        self.leaves = [reference for reference in self.leaves if reference() is not None]
        known = {id(reference()) for reference in self.leaves}
        self.leaves += [
            weakref.ref(tensor)
            for tensor in inputs
            if tensor.requires_grad and tensor.is_leaf and id(tensor) not in known
        ]

    def _rescue(self) -> None:
        """Autograd makes the static gradients themselves the `.grad` of parameters: those that are still there when a
        replay is about to overwrite them get memory of their own, as when gradients are accumulated or zeroed in place.
        """
        static = {grad.data_ptr() for grad in self.grad_inputs if grad is not None}
        rescued: set[int] = set()
        owners = (*self.parameters, *(reference() for reference in self.leaves))
        with torch.no_grad():
            for owner in owners:
                if owner is not None and owner.grad is not None and owner.grad.data_ptr() in static:
                    rescued.add(owner.grad.data_ptr())
                    owner.grad.data = owner.grad.clone()
            for reference in self.handed_out:  # where the caller asked for gradients by torch.autograd.grad
                grad = reference()
                if grad is not None and grad.data_ptr() in static - rescued:
                    grad.data = grad.clone()
        self.handed_out = []


def graphed_function(captured: Captured, unwrap: bool) -> Callable[..., Any]:
    """What calls replay `captured`; `unwrap`: it returns one tensor, not a tuple."""

    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> Tensors:
            given = inputs[: len(captured.inputs)]
            captured.run_forward(given)
            ctx.call = captured.calls
            if captured.lends_inputs:
                ctx.save_for_backward(*given)
            outputs = tuple(output.detach() for output in captured.outputs)
            without = [output for output, grad in zip(outputs, captured.grad_outputs, strict=True) if grad is None]
            ctx.mark_non_differentiable(*without)
            ctx.set_materialize_grads(False)
            return outputs

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *grads: torch.Tensor | None) -> Optionals:
            return captured.run_backward(ctx.call, grads, ctx.saved_tensors)

    def call(*inputs: torch.Tensor) -> Any:
        captured.check(inputs)
        if strict.enabled():
            calls.refuse_overwritten(inputs)
        captured.remember_leaves(inputs)
        outputs = Graphed.apply(*inputs, *captured.parameters)
        if strict.enabled():
            calls.keep(outputs, captured.name)
        return outputs[0] if unwrap else outputs

    return call
