"""Devices named `cuda` mean the card, wherever PyTorch takes a device."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._device import _device_constructors

from .call_log import note

HPU = torch.device("hpu", 0)
_Device = torch.device
_Generator = torch.Generator
_tensor_type = torch.Tensor.type
_restorers: list[torch.library.Library] = []


def is_cuda(device: Any) -> bool:
    """Whether it names a CUDA device: "cuda", "cuda:3" or a `torch.device` of that kind."""
    if isinstance(device, str):
        return device.partition(":")[0] == "cuda"
    return isinstance(device, _Device) and device.type == "cuda"


def to_hpu(device: Any) -> Any:
    """The card where `device` names a CUDA device, else `device` itself. A process has one card, whatever the index."""
    if not is_cuda(device):
        return device
    note(f"device {device}", "hpu")
    return HPU if ":" in str(device) else _Device("hpu")


def mapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with CUDA devices among its arguments mapped."""

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        if any(is_cuda(argument) for argument in arguments):
            arguments = tuple(to_hpu(argument) for argument in arguments)
        if is_cuda(options.get("device")):
            options["device"] = to_hpu(options["device"])
        return function(*arguments, **options)

    return call


class _OnCard(type):
    """Stands for a class of PyTorch's: calls make objects of that class, with mapped devices."""

    original: Any

    def __call__(cls, *arguments: Any, **options: Any) -> Any:
        if len(arguments) == 2 and is_cuda(arguments[0]):  # device("cuda", 1)
            return to_hpu(f"{arguments[0]}:{arguments[1]}")
        options = {name: to_hpu(value) for name, value in options.items()}
        if is_cuda(options.get("type")):
            options = {"type": "hpu"}
        return cls.original(*(to_hpu(argument) for argument in arguments), **options)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.original)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.original)

    def __eq__(cls, other: object) -> bool:
        return other is cls.original or type.__eq__(cls, other)

    def __hash__(cls) -> int:
        return hash(cls.original)


def _stand_in(original: type) -> type:
    return _OnCard(original.__name__, (), {"original": original, "__module__": "torch", "__doc__": original.__doc__})


def _map_location(storage: Any, location: str) -> Any:
    """Storages saved from CUDA tensors go to the card."""
    return storage.to(device=HPU) if location.partition(":")[0] == "cuda" else None


def _cuda(self: Any, device: Any = None, non_blocking: bool = False, **options: Any) -> Any:
    note(f"{type(self).__name__}.cuda()", "hpu()")
    return self.to(HPU, non_blocking=non_blocking, **options)


def _type(self: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **options: Any) -> Any:
    """`Tensor.type`; `torch.cuda.FloatTensor` and its like, as class or as name, mean the card and their dtype."""
    kind = dtype
    if isinstance(dtype, str) and dtype.startswith("torch.cuda."):
        kind = getattr(torch.hpu, dtype.removeprefix("torch.cuda."), None)  # type: ignore[attr-defined]
    of_card = getattr(kind, "dtype_of_class", None)
    if of_card is None:
        return _tensor_type(self, dtype, non_blocking, **options)
    note(f"Tensor.type({dtype})", "to(hpu)")
    return self.to(HPU, of_card, non_blocking=non_blocking)


def _module_cuda(self: torch.nn.Module, device: Any = None) -> torch.nn.Module:
    note("Module.cuda()", "hpu()")
    return self.to(HPU)


def apply() -> None:
    """Install the mapping."""
    torch.device = _stand_in(_Device)  # type: ignore[misc, assignment]
    torch.Generator = _stand_in(_Generator)  # type: ignore[misc, assignment]
    names = {function.__name__ for function in _device_constructors()}
    for name in sorted(names | {"tensor", "as_tensor", "asarray", "set_default_device", "get_device_module"}):
        if callable(getattr(torch, name, None)):
            setattr(torch, name, mapped(getattr(torch, name)))
    methods = ("to", "new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor", "new_zeros", "pin_memory")
    for name in methods:
        setattr(torch.Tensor, name, mapped(getattr(torch.Tensor, name)))
    torch.nn.Module.to = mapped(torch.nn.Module.to)  # type: ignore[method-assign]
    torch.nn.Module.to_empty = mapped(torch.nn.Module.to_empty)  # type: ignore[method-assign]
    torch.Tensor.type = _type  # type: ignore[method-assign, assignment]
    torch.Tensor.cuda = _cuda  # type: ignore[method-assign, assignment]
    torch.UntypedStorage.cuda = _cuda  # type: ignore[assignment, method-assign]
    torch.nn.Module.cuda = _module_cuda  # type: ignore[method-assign, assignment]
    torch.Tensor.is_cuda = property(lambda tensor: tensor.device.type == "hpu")  # type: ignore
    torch.serialization.register_package(6, lambda storage: None, _map_location)
    _redirect_cuda_key()


def _redirect_cuda_key() -> None:
    # What reaches PyTorch's C++ with a CUDA device nevertheless, such as TorchScript's, makes tensors on the card.
    library = torch.library.Library("aten", "IMPL")

    def make(factory: Any) -> Any:
        return lambda *arguments, device=None, **options: factory(*arguments, device=HPU, **options)

    with warnings.catch_warnings():
        # A PyTorch built for CUDA has kernels under this key. They are replaced on purpose: no news to the script.
        warnings.filterwarnings("ignore", "Warning only once for all operators", UserWarning)
        library.impl("empty.memory_format", make(torch.ops.aten.empty.memory_format), "CUDA", allow_override=True)
        library.impl("empty_strided", make(torch.ops.aten.empty_strided.default), "CUDA", allow_override=True)
    _restorers.append(library)
