"""How an operator of the namespace `hpu` is made known to PyTorch.

Each has a schema, a kernel that computes its plain formula on CPU tensors, and a function that gives the shapes and
types of its results from shapes alone. The bridge records one node for it like for any operator of PyTorch's own: its
shapes come from the second, its numbers from the first when the recipe runs. The shapes serve `torch.compile`, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

NAMESPACE = "hpu"

Kernel = Callable[..., Any]


def nothing(*arguments: Any, **options: Any) -> None:
    """The shapes of an operator that returns nothing."""


def same(tensor: Tensor, *arguments: Any, **options: Any) -> Tensor:
    """The shape of an operator that returns its first argument."""
    return tensor


def like(tensor: Tensor, *arguments: Any, **options: Any) -> Tensor:
    """The shape of an operator whose result is as its first argument, and dense."""
    return tensor.new_empty(tensor.shape)


def _without_traceback(kernel: Kernel) -> Kernel:
    """The kernel, whose errors keep none of its frames: their tensors lose their memory when the recipe ends, and what
    shows them afterwards would read where nothing is.
    """

    def guarded(*arguments: Any, **options: Any) -> Any:
        try:
            return kernel(*arguments, **options)
        except Exception as error:
            failure = error.with_traceback(None)
            del arguments, options
        raise failure

    return guarded


class Registry:
    """Defines operators; they last as long as it does."""

    def __init__(self) -> None:
        self._library = torch.library.Library(NAMESPACE, "FRAGMENT")
        self.names: list[str] = []

    def operator(self, schema: str, kernel: Kernel, shapes: Kernel, *, random: bool = False) -> str:
        """Define `schema` ("name.overload(...) -> ..."); `random`: the kernel draws from PyTorch's default generator.

        Returns the name with its overload.
        """
        tags = [torch.Tag.pt2_compliant_tag] + ([torch.Tag.nondeterministic_seeded] if random else [])
        self._library.define(schema, tags=tuple(tags))
        name = self._named(schema)
        self._library.impl(name, _without_traceback(kernel), "CPU")
        self._library.impl(name, shapes, "Meta")
        return name

    def composite(self, schema: str, function: Kernel) -> None:
        """Define an operator that only calls others; those are recorded."""
        self._library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        self._library.impl(self._named(schema), function, "CompositeImplicitAutograd")

    def _named(self, schema: str) -> str:
        name = schema.partition("(")[0]
        self.names.append(name)
        return name

    def gradient(self, name: str, save: Kernel, backward: Kernel) -> None:
        """`backward(ctx, *gradients)` differentiates the operator; `save(ctx, inputs, output)` keeps what it needs."""
        torch.library.register_autograd(f"{NAMESPACE}::{name}", backward, setup_context=save, lib=self._library)

    def functionalize(self, name: str, functional: str) -> None:
        """In traced programs the operator `name`, which changes its first argument, is `functional` and a copy."""
        overload = getattr(torch.ops.hpu, name).default
        pure = getattr(torch.ops.hpu, functional).default

        @overload.py_functionalize_impl
        def replaced(ctx: Any, target: Tensor, *arguments: Any) -> Tensor:
            inner = ctx.unwrap_tensors((target, *arguments))
            with ctx.redispatch_to_next():
                result = pure(*inner)
            ctx.replace(target, result)
            ctx.commit_update(target)
            ctx.sync(target)
            return target


def same_lengths(operator: str, lists: dict[str, Sequence[Any]]) -> None:
    """Whether the lists of an operator belong together.

    Raises:
        RuntimeError: their lengths differ.
    """
    if len({len(items) for items in lists.values()}) > 1:
        lengths = ", ".join(f"{name} has {len(items)}" for name, items in lists.items())
        raise RuntimeError(f"hpu::{operator}: the lists must have the same number of tensors, but {lengths}")


def store(target: Tensor, value: Tensor) -> None:
    """Write a result into a tensor of its shape. A factor of one element makes a scalar's result one of shape (1,)."""
    target.copy_(value.reshape(()) if target.dim() == 0 else value)
