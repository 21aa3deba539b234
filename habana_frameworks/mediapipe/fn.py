"""Operators of a pipeline (`fn.ImageDecoder`, `fn.Crop`, ...): each refuses when it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from .._unavailable import function
from ._refusal import ALTERNATIVE, FEATURE


def __getattr__(name: str) -> Callable[..., NoReturn]:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return function(f"{FEATURE}.fn.{name}", ALTERNATIVE)
