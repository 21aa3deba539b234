"""Tells the card's memory what tensors are for: weights, gradients, optimizer state.

    weights          parameters and buffers, when a module registers them and when it moves to the card
    gradients        of those parameters, and of the parameters of an optimizer that steps
    optimizer state  the tensors in `optimizer.state`

Graphs repeat, so an optimizer is walked only while new graphs have come up since its last walk: from then on the memory
knows what their outputs are for, and a step costs one comparison. Where nothing is learned (eager mode: one operator
makes gradients and activations alike) new gradients are looked up at each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from .hbm import Hbm
from .usage import Category

DEVICE = "hpu"
PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)  # subclasses may have no storage


def address_of(tensor: Any) -> int:
    """Card address of a tensor's storage; 0 for what has none: host tensors, and stand-ins of tracing and of shapes."""
    if type(tensor) not in PLAIN or tensor.device.type != DEVICE or is_functorch_wrapped_tensor(tensor):
        return 0
    return tensor.untyped_storage().data_ptr()


class Labeller:
    """Labels of one process. `memory`: the card's memory, None as long as the process has no card."""

    def __init__(self, memory: Callable[[], Hbm | None]) -> None:
        self._memory = memory
        self._walked: WeakKeyDictionary[torch.optim.Optimizer, int] = WeakKeyDictionary()

    def install(self) -> None:
        """Follow modules from here on."""
        register_module_parameter_registration_hook(self._registered)
        register_module_buffer_registration_hook(self._registered)
        move = torch.nn.Module._apply

        def move_and_label(module: torch.nn.Module, *arguments: Any, **options: Any) -> torch.nn.Module:
            moved = move(module, *arguments, **options)
            self.label_module(module)
            return moved

        torch.nn.Module._apply = move_and_label  # type: ignore[assignment, method-assign]

    def label_module(self, module: torch.nn.Module) -> None:
        """A module's own parameters with their gradients, and its buffers."""
        parameters = list(module._parameters.values())
        self._label([*parameters, *module._buffers.values()], Category.WEIGHTS)
        self._label(_gradients(parameters), Category.GRADIENTS)

    def label_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """After a step: the optimizer's parameters, their gradients, and its state."""
        memory = self._memory()
        if memory is None:
            return
        known = self._walked.get(optimizer) == memory.origins
        if known and memory.learns:
            return
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self._label(_gradients(parameters), Category.GRADIENTS)
        if not known:
            self._label(parameters, Category.WEIGHTS)
            self._label(_tensors(optimizer.state.values()), Category.OPTIMIZER_STATE)
            self._walked[optimizer] = memory.origins

    def _registered(self, module: torch.nn.Module, name: str, tensor: torch.Tensor | None) -> None:
        if tensor is not None:
            self._label((tensor,), Category.WEIGHTS)

    def _label(self, tensors: Iterable[Any], category: Category) -> None:
        memory = self._memory()
        if memory is None:
            return
        for tensor in tensors:
            address = address_of(tensor)
            if address:
                memory.label(address, category)


def _gradients(parameters: Iterable[torch.Tensor | None]) -> list[torch.Tensor]:
    # `.grad` of a tensor that is no leaf warns, and has none to offer.
    leaves = (parameter for parameter in parameters if parameter is not None and parameter.is_leaf)
    return [parameter.grad for parameter in leaves if parameter.grad is not None]


def _tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    """The tensors in nested dictionaries, lists and tuples."""
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, dict):
            found += _tensors(value.values())
        elif isinstance(value, (list, tuple)):
            found += _tensors(value)
    return found
