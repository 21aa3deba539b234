"""`media_function`, the base class of a user's host operator."""

from __future__ import annotations

from typing import Any


class media_function:
    """To be derived from. `params`: the keyword arguments of `fn.MediaFunc`, with `shape`, `dtype` and `seed`."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.params = params

    def __call__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __call__")
