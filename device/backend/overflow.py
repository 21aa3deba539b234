"""The strict switch's look at autocast: a finite number that the lower type holds as infinity.

`mask * torch.finfo(torch.float32).min` in bfloat16 is minus infinity; where a whole row is masked, softmax gives NaN.
The card computes that without a word. With HPUCLUSTER_STRICT=1 every PyTorch function looks at its numbers first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .. import strict


class OverflowCheck(TorchFunctionMode):
    """Refuses numbers that become infinite in autocast's lower type. `operators`: those that run in it."""

    def __init__(self, operators: Iterable[str]) -> None:
        super().__init__()
        self._operators = frozenset(operators)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        if torch.is_autocast_enabled("hpu") and _base_name(func) in self._operators:
            dtype = torch.get_autocast_dtype("hpu")
            name = str(dtype).removeprefix("torch.")
            for value in (*args, *options.values()):
                if isinstance(value, (int, float)) and _overflows(value, dtype):
                    strict.refuse(
                        f"{_base_name(func)} with {value!r} under autocast: in {name} that is infinite; use "
                        f"torch.finfo(torch.{name}).min or .max, or leave autocast with "
                        'torch.autocast("hpu", enabled=False)'
                    )
        return func(*args, **options)


def _base_name(func: Callable[..., Any]) -> str:
    """`mul` for torch.mul, Tensor.mul_, `__mul__`, `__rmul__` and `__imul__`."""
    name = getattr(func, "__name__", "")
    if name.startswith("__"):
        name = name.strip("_")
        name = name[1:] if name[:1] in "ri" and name[1:] in ("add", "sub", "mul", "truediv", "matmul", "pow") else name
    return name.rstrip("_")


def _overflows(value: float, dtype: torch.dtype) -> bool:
    """Whether a finite number rounds to infinity."""
    if isinstance(value, bool) or not math.isfinite(value):
        return False
    info = torch.finfo(dtype)
    # Rounds up beyond half of the last step below the next power of two.
    return abs(value) >= info.max * (1 + info.eps / 4)
