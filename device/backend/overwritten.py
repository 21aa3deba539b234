"""The strict switch's look at HPU graphs: a tensor of one call that is used after another call has overwritten it.

A captured module returns the same memory at every call, and copies later inputs into the first call's. Who keeps a
result across calls finds the last call's values in all of them, without a word from the card. With HPUCLUSTER_STRICT=1
each call returns tensors of its own over that memory, and to use one from an earlier call is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from .. import strict

_WRITES_WHOLE = frozenset(("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_"))
_PLAIN = (torch.Tensor, torch.nn.Parameter)  # others, such as DTensor, may have no memory of their own
_ABOUT = frozenset(  # what asks a tensor for something other than its values
    (
        *("__get__", "__set__", "__len__", "__hash__", "__setattr__", "size", "dim", "ndimension", "numel", "nelement"),
        *("stride", "storage_offset", "data_ptr", "is_contiguous", "element_size", "get_device", "is_floating_point"),
        *("is_complex", "is_signed", "is_pinned", "is_shared", "untyped_storage", "storage", "type", "requires_grad_"),
        "register_hook",
    )
)


class _Overwritten:
    """Storages of captured calls by address, with the number of the call that they now belong to, and of what."""

    def __init__(self) -> None:
        self._now: dict[int, int] = {}
        self._owners: dict[int, str] = {}
        self._seen = WeakTensorKeyDictionary()  # tensor: the number when it was handed out

    def __bool__(self) -> bool:
        return bool(self._now)

    def hand_out(self, tensor: torch.Tensor, owner: str) -> None:
        """`tensor` goes to the caller of `owner` with the values of the present call."""
        address = _address(tensor)
        self._owners[address] = owner
        self._seen[tensor] = self._now.setdefault(address, 0)

    def overwrite(self, tensor: torch.Tensor) -> None:
        """A call has put other values into that memory; autograd, too, learns that what it kept of it is gone."""
        address = _address(tensor)
        if address in self._now:
            self._now[address] += 1
            torch.autograd.graph.increment_version(tensor)

    def is_stale(self, tensor: torch.Tensor) -> bool:
        """Whether it belongs to an earlier call than its memory."""
        seen = self._seen.get(tensor)
        return seen is not None and seen != self._now.get(_address(tensor), seen)

    def refuse(self, tensor: torch.Tensor, use: str) -> None:
        """Raises StrictError: it is used, and is stale."""
        if self.is_stale(tensor):
            owner = self._owners[_address(tensor)]
            strict.refuse(
                f"{use} of a tensor that a later call of {owner} has overwritten: on the card it has that call's "
                "values. Use it before the next call, or keep a clone() of it"
            )

    def follow(self, tensor: torch.Tensor, sources: Iterable[torch.Tensor]) -> None:
        """`tensor` came of an operator on `sources`: a view is as old as what it shows."""
        address = _address(tensor)
        if address in self._now and tensor not in self._seen:
            ages = [self._seen[source] for source in sources if source in self._seen and _address(source) == address]
            self._seen[tensor] = min(ages, default=self._now[address])

    def written(self, tensor: torch.Tensor) -> None:
        """The caller has filled it with values of their own."""
        if tensor in self._seen:
            self._seen[tensor] = self._now[_address(tensor)]


overwritten = _Overwritten()


class OverwrittenCheck(TorchFunctionMode):
    """Refuses functions of tensors that a later call of a captured module has overwritten."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        if not overwritten:
            return func(*args, **options)
        name = getattr(func, "__name__", "")
        tensors = list(_tensors((*args, *options.values())))
        target = tensors[0] if tensors and name in _WRITES_WHOLE else None
        if name not in _ABOUT:
            for tensor in tensors:
                if tensor is not target:
                    overwritten.refuse(tensor, name)
        result = func(*args, **options)
        if target is not None:
            overwritten.written(target)
        for tensor in _tensors((result,)):
            overwritten.follow(tensor, tensors)
        return result


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            if type(value) in _PLAIN and value.device.type == "hpu":
                yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
