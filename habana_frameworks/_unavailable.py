"""Names of closed packages that cannot be had here: they exist, and say so when they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def refuse(feature: str, alternative: str) -> NoReturn:
    """Say that a feature cannot be had.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(f"{feature} is a closed package that emulated cards do not have; {alternative}")


def function(feature: str, alternative: str) -> Callable[..., NoReturn]:
    """A function that refuses when it is called."""

    def call(*args: Any, **kwargs: Any) -> NoReturn:
        refuse(feature, alternative)

    return call


def kind(name: str, feature: str, alternative: str) -> type:
    """A class that refuses when an object is made of it or of a class derived from it."""

    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        refuse(feature, alternative)

    return type(name, (), {"__init__": make, "__doc__": f"{feature}: not available; {alternative}."})
