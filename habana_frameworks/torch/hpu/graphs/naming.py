"""What messages call a module or function."""

from __future__ import annotations

from typing import Any


def name_of(function: Any) -> str:
    """A function's name, otherwise the name of the class."""
    return getattr(function, "__name__", type(function).__name__)
