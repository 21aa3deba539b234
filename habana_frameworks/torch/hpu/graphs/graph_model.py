"""A module captured for calls of one form, whatever containers its arguments and outputs are."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from device.errors import HpuError

from .containers import TensorPacker, extract_tensors
from .graphed_callables import capture_callable
from .input_key import input_hash


def bind(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, defaults included.

    Raises:
        TypeError: they do not fit the signature.
    """
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def call(forward: Callable[..., Any], signature: inspect.Signature, arguments: dict[str, Any]) -> Any:
    """Call with what `bind` gave."""
    bound = inspect.BoundArguments(signature, arguments)  # type: ignore[arg-type]
    return forward(*bound.args, **bound.kwargs)


class GraphModel(nn.Module):
    """`model` with its forward and backward pass captured by `init_hpu_graph` for calls like that one.

    Tensors among the arguments are its inputs, all others stay what they were. `forward`: what to capture, where it is
    not `model` itself.

    Raises:
        RuntimeError: the module is wrapped for data parallelism.
    """

    def __init__(
        self,
        model: nn.Module,
        allow_unused_input: bool = False,
        asynchronous: bool = False,
        disable_tensor_cache: bool = False,
        dry_run: bool = False,
        forward: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__()
        if isinstance(model, (DataParallel, DistributedDataParallel)):
            raise HpuError(
                f"{type(model).__name__} goes around a module that was cached: first ModuleCacher()(model), then "
                f"{type(model).__name__}(model)"
            )
        self.model = model
        self.allow_unused_input = allow_unused_input
        self.asynchronous = asynchronous
        self.disable_tensor_cache = disable_tensor_cache
        self.dry_run = dry_run
        self.input_id: int | None = None
        self._plain = model if forward is None else forward
        self._signature = inspect.signature(model.forward if forward is None else forward)
        self._packer = TensorPacker()
        self._input_form: Any = None
        self._output_form: Any = None
        self._replay: Callable[..., Any] | None = None

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What is captured: from the input tensors to the output tensors."""
        outputs = call(self._plain, self._signature, self._packer.unpack(tensors, self._input_form))
        packed, self._output_form = self._packer.pack(outputs)
        self._check_outputs(outputs, packed)
        return packed

    def init_hpu_graph(self, *args: Any, **kwargs: Any) -> None:
        """Capture for calls like this one.

        Raises:
            RuntimeError: it cannot be captured; the message says why.
        """
        arguments = bind(self._signature, args, kwargs)
        self.input_id = input_hash(arguments)
        tensors, self._input_form = self._packer.pack(arguments)
        name = type(self.model).__name__
        # Later calls overwrite static inputs: they are not the caller's tensors.
        static = tuple(tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in tensors)
        self._replay = capture_callable(
            self,
            static,
            self.model,
            f"call {name}.clear_cache(), and it is captured anew",
            self.allow_unused_input,
            self.asynchronous,
            self.disable_tensor_cache,
        )

    def graph_forward(self, *args: Any, **kwargs: Any) -> Any:
        """A call that replays; its output has the form of the captured one.

        Raises:
            RuntimeError: nothing was captured, or the call does not fit it.
        """
        if self._replay is None:
            raise HpuError("this GraphModel has captured nothing; call init_hpu_graph() with arguments first")
        tensors, _ = self._packer.pack(bind(self._signature, args, kwargs))
        return self._packer.unpack(self._replay(*tensors), self._output_form)

    def _check_outputs(self, outputs: Any, packed: tuple[torch.Tensor, ...]) -> None:
        name = type(self.model).__name__
        if not packed:
            raise HpuError(
                f"{name} returns no tensor ({type(outputs).__name__}), so there is nothing to replay; do not cache it"
            )
        known = {id(tensor) for tensor in packed}
        if any(id(tensor) not in known for tensor in extract_tensors(outputs)):
            warnings.warn(
                f"{name} returns tensors inside objects that are no list, tuple, dictionary or dataclass: in replays "
                "they have new values, but no gradients",
                stacklevel=2,
            )
