"""Old tensor constructors: `torch.hpu.FloatTensor([1, 2])` is a tensor on hpu of that type."""

from __future__ import annotations

from typing import Any

import torch


class _Typed(type(torch.Tensor)):  # type: ignore[misc]
    """Class of the constructors: tensors on hpu of the type are their instances."""

    dtype_of_class: torch.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, torch.Tensor)
            and instance.device.type == "hpu"
            and instance.dtype == cls.dtype_of_class
        )


def _constructor(name: str, dtype: torch.dtype) -> Any:
    def make(cls: type, *args: Any, **kwargs: Any) -> torch.Tensor:
        """A tensor on hpu from sizes, from data, or empty.

        Raises:
            RuntimeError: another device or dtype was asked for.
        """
        device, given = kwargs.pop("device", None), kwargs.pop("dtype", None)
        if device is not None and torch.device(device).type != "hpu":
            raise RuntimeError(f"legacy constructor expects device type: hpu but device type: {device} was passed")
        if given is not None and given != dtype:
            raise RuntimeError(f"legacy constructor expects dtype: {dtype} but dtype: {given} was passed")
        sizes = args[0] if len(args) == 1 and isinstance(args[0], torch.Size) else args
        if not args or isinstance(sizes, torch.Size) or all(type(size) is int for size in args):
            return torch.empty(tuple(sizes) if args else (0,), dtype=dtype, device="hpu")
        options: dict[str, Any] = {**kwargs, "dtype": dtype, "device": "hpu"}
        return torch.tensor(*args, **options)

    return _Typed(name, (torch.Tensor,), {"__new__": make, "dtype_of_class": dtype, "__module__": "torch.hpu"})


BFloat16Tensor = _constructor("BFloat16Tensor", torch.bfloat16)
BoolTensor = _constructor("BoolTensor", torch.bool)
ByteTensor = _constructor("ByteTensor", torch.uint8)
CharTensor = _constructor("CharTensor", torch.int8)
DoubleTensor = _constructor("DoubleTensor", torch.float64)
FloatTensor = _constructor("FloatTensor", torch.float32)
HalfTensor = _constructor("HalfTensor", torch.float16)
IntTensor = _constructor("IntTensor", torch.int32)
LongTensor = _constructor("LongTensor", torch.int64)
ShortTensor = _constructor("ShortTensor", torch.int16)
