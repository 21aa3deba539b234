"""What decides whether a captured graph fits a call."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Hashable
from typing import Any

import torch

from .containers import children, get_user_input_tensor_list, is_container


def _view(tensor: torch.Tensor) -> Hashable:
    """The window that a tensor on the card has on its memory."""
    if tensor.layout != torch.strided:
        return str(tensor.layout)
    whole = tensor.storage_offset() == 0 and tensor.is_contiguous()
    return None if whole else (tensor.storage_offset(), tensor.stride())


def _key(obj: Any) -> Hashable:
    if isinstance(obj, torch.Tensor):
        return ("tensor", obj.device.type, obj.dtype, tuple(obj.shape), _view(obj))
    if isinstance(obj, UserDict):
        return (type(obj).__name__, _key(obj.data))
    if is_container(obj):
        return (type(obj).__name__, *((name, _key(value)) for name, value in children(obj)))
    if obj is None or isinstance(obj, (bool, int, float, complex)):
        return (type(obj).__name__, repr(obj))  # hash(-1) is hash(-2), and 1 equals True
    if isinstance(obj, (set, frozenset)):
        return (type(obj).__name__, frozenset(obj))
    try:
        hash(obj)
    except TypeError as error:
        raise TypeError(
            f"an argument of type {type(obj).__name__} cannot be hashed, so that nothing says whether a captured graph "
            "fits it; pass tensors, numbers, strings, and lists, tuples, dictionaries or dataclasses of these"
        ) from error
    return (type(obj).__name__, obj)


def _autocast() -> Hashable:
    return torch.get_autocast_dtype("hpu") if torch.is_autocast_enabled("hpu") else None


def input_hash(obj: Any) -> int:
    """A hash of what a captured graph depends on: of each tensor its shape, type and view, not its values; of other
    values themselves; and autocast. Containers and dataclasses count with what they hold.

    Raises:
        TypeError: a value in it cannot be hashed.
    """
    return hash((_key(obj), _autocast()))


def call_key(inputs: Any) -> Hashable:
    """As `input_hash`, for a call that would be replayed; exact, and with what a replay could not follow beside that:
    values of tensors on the host, and inputs that are the same tensor.
    """
    tensors = get_user_input_tensor_list(inputs)
    on_host = tuple(
        bytes(tensor.detach().contiguous().flatten().view(torch.uint8).numpy())
        for tensor in tensors
        if tensor.device.type == "cpu" and tensor.layout == torch.strided
    )
    numbers: dict[int, int] = {}
    same = tuple(numbers.setdefault(id(tensor), number) for number, tensor in enumerate(tensors))
    distinct = len(numbers) == len(tensors)
    return (_key(inputs), _autocast(), on_host, None if distinct else same)
