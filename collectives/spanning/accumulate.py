"""Reduction over several machines: what is handed from one to the next keeps its full precision.

The order is that of `reduction`: what was handed over first, then this machine's ranks one after another. float16 and
bfloat16 are handed on in float32 and rounded once, by the last machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from ..reduction import reduction, storage_dtype

_WIDENED = (torch.float16, torch.bfloat16)
_COMBINE: dict[str, Callable[..., torch.Tensor]] = {
    "SUM": torch.add,
    "MIN": torch.minimum,
    "MAX": torch.maximum,
    "PRODUCT": torch.mul,
}


class Accumulator:
    """The reduction `SUM`, `MIN`, `MAX` or `PRODUCT` of elements of a dtype.

    `stored` is the numpy dtype of contributions and of the result, `partial` that of what is handed on.
    """

    def __init__(self, name: str, dtype: torch.dtype) -> None:
        self._combine = _COMBINE[name]
        self._dtype = dtype
        self._reduce = reduction(name, dtype)
        self._is_widened = dtype in _WIDENED
        self.stored = storage_dtype(dtype)
        self.partial = np.dtype(np.float32) if self._is_widened else self.stored

    def handed_on(self, before: np.ndarray | None, rows: Sequence[np.ndarray]) -> np.ndarray:
        """`before` (of type `partial`; None at the first machine) with the contributions added, of type `partial`."""
        if self._is_widened:
            return self._sum(before, rows).numpy()
        return self._in_storage(before, rows)

    def result(self, before: np.ndarray | None, rows: Sequence[np.ndarray]) -> np.ndarray:
        """The same, rounded to the stored type."""
        if self._is_widened:
            return self._sum(before, rows).to(self._dtype).view(torch.int16).numpy()
        return self._in_storage(before, rows)

    def _in_storage(self, before: np.ndarray | None, rows: Sequence[np.ndarray]) -> np.ndarray:
        target = np.empty(len(rows[0]), self.stored)
        self._reduce(target, [*([] if before is None else [before]), *rows])
        return target

    def _sum(self, before: np.ndarray | None, rows: Sequence[np.ndarray]) -> torch.Tensor:
        wide = (torch.from_numpy(row).view(self._dtype).to(torch.float32) for row in rows)
        total = next(wide) if before is None else torch.from_numpy(before)
        for row in wide:
            self._combine(total, row, out=total)
        return total
