"""Tensors in nested containers: lists, tuples, dictionaries and dataclasses, as calls take and return them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch


def is_sequence(obj: Any) -> bool:
    """A list or tuple to look into; a size is one value."""
    return isinstance(obj, (list, tuple)) and not isinstance(obj, torch.Size)


def is_dataclass(obj: Any) -> bool:
    """An instance of a dataclass that is no dictionary (as the output classes of Hugging Face's models are)."""
    return dataclasses.is_dataclass(obj) and not isinstance(obj, (type, dict))


def fields_of(obj: Any) -> dict[str, Any]:
    """The fields of a dataclass's instance by name."""
    return {field.name: getattr(obj, field.name) for field in dataclasses.fields(obj)}


def children(obj: Any) -> Iterator[tuple[str, Any]]:
    """What a container holds, each with how to write its place; nothing for a value."""
    if isinstance(obj, dict):
        for key, value in obj.items():
            yield f"[{key!r}]", value
    elif is_sequence(obj):
        for index, value in enumerate(obj):
            yield f"[{index}]", value
    elif is_dataclass(obj):
        for name, value in fields_of(obj).items():
            yield f".{name}", value


def is_container(obj: Any) -> bool:
    """Whether `children` looks into it."""
    return isinstance(obj, dict) or is_sequence(obj) or is_dataclass(obj)


def map_values(obj: Any, change: Callable[[Any], Any]) -> Any:
    """A container of the same form whose values, those that are no containers, went through `change`."""
    if isinstance(obj, dict):
        changed = copy.copy(obj)
        for key, value in obj.items():
            changed[key] = map_values(value, change)
        return changed
    if is_sequence(obj):
        values = [map_values(value, change) for value in obj]
        if isinstance(obj, tuple):
            return type(obj)(*values) if hasattr(obj, "_fields") else tuple(values)
        changed = copy.copy(obj)
        changed[:] = values
        return changed
    if is_dataclass(obj):
        changed = copy.copy(obj)
        for name, value in fields_of(obj).items():
            object.__setattr__(changed, name, map_values(value, change))
        return changed
    return change(obj)


def get_user_input_tensor_list(inputs: Any, tlist: tuple[torch.Tensor, ...] = ()) -> tuple[torch.Tensor, ...]:
    """`tlist` and all tensors in `inputs`, in order."""
    if isinstance(inputs, torch.Tensor):
        return (*tlist, inputs)
    for _, value in children(inputs):
        tlist = get_user_input_tensor_list(value, tlist)
    return tlist


def extract_tensors(data: Any) -> list[torch.Tensor]:
    """All tensors in `data`, in order; unlike `get_user_input_tensor_list` those in attributes of any object, too."""
    found: list[torch.Tensor] = []
    seen: set[int] = set()

    def look(obj: Any) -> None:
        if isinstance(obj, torch.Tensor):
            found.append(obj)
            return
        if id(obj) in seen:
            return
        if is_container(obj):
            inside = [value for _, value in children(obj)]
        elif hasattr(obj, "__dict__") and not isinstance(obj, type):
            inside = list(vars(obj).values())
        else:
            return
        seen.add(id(obj))
        for value in inside:
            look(value)

    look(data)
    return found


def same_window(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are the same memory in the same order."""
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride()


def copy_to(dst: Any, src: Any) -> None:
    """Copy the values of the tensors in `src` into those in `dst`, containers of the same form. The host goes on.

    Raises:
        TypeError: the forms differ; it says where.
        RuntimeError: two tensors differ in shape.
    """
    _copy_to(dst, src, "")


def _copy_to(dst: Any, src: Any, place: str) -> None:
    if isinstance(dst, torch.Tensor) and isinstance(src, torch.Tensor):
        if dst.shape != src.shape:
            raise RuntimeError(
                f"copy_to: a tensor of sizes {tuple(src.shape)} does not go into one of {tuple(dst.shape)}"
                f"{f' at {place}' if place else ''}; use a graph that was captured with those sizes"
            )
        if dst is not src:
            dst.copy_(src, non_blocking=True)
        return
    if type(dst) is not type(src):
        raise TypeError(
            f"copy_to: {type(src).__name__} does not go into {type(dst).__name__}{f' at {place}' if place else ''}; "
            "give containers of the same form"
        )
    into, out_of = list(children(dst)), list(children(src))
    if [name for name, _ in into] != [name for name, _ in out_of]:
        raise TypeError(
            f"copy_to: containers{f' at {place}' if place else ''} hold {[name for name, _ in out_of]} and "
            f"{[name for name, _ in into]}; give containers of the same form"
        )
    for (name, old), (_, new) in zip(into, out_of, strict=True):
        _copy_to(old, new, place + name)


class TensorPacker:
    """Takes the tensors out of a nested container, and puts others in their places.

    Values that are no tensors stay in the container's form as they are; `verbose` prints their types.
    """

    class Index:
        """Where the tensor of that number was."""

        def __init__(self, value: int) -> None:
            self.value = value

        def __repr__(self) -> str:
            return f"#{self.value}"

    def __init__(self, is_out_pack: bool = False, verbose: bool = False) -> None:
        self._is_out_pack = is_out_pack
        self._verbose = verbose

    def pack(self, outs: Any) -> tuple[tuple[torch.Tensor, ...], Any]:
        """The tensors in `outs`, in order, and its form, which has an `Index` in the place of each."""
        tensors: list[torch.Tensor] = []

        def take(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                tensors.append(value)
                return self.Index(len(tensors) - 1)
            if self._verbose:
                kind = "output" if self._is_out_pack else "input"
                print(f"[WARNING] an {kind} of type {type(value).__name__} stays as it is in every replay")
            return value

        form = map_values(outs, take)
        return tuple(tensors), form

    def unpack(self, tensors: Any, metadata: Any) -> Any:
        """A container of the form `metadata` with those tensors in it."""
        return map_values(metadata, lambda value: tensors[value.value] if isinstance(value, self.Index) else value)
