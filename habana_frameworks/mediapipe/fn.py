"""Media operators by name, as in `fn.ImageDecoder(...)`: calling one raises `NotImplementedError`."""

from __future__ import annotations

from typing import Any

from .unavailable import refuse


def __getattr__(name: str) -> Any:
    if not name[:1].isupper():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def operator(*args: Any, **kwargs: Any) -> Any:
        raise refuse(f"fn.{name}")

    return operator
