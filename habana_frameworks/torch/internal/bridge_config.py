"""The bridge's flags: `get_<flag>()` and `set_<flag>(value)` for each, with the name in lower case.

A flag that is read once, at the start, can be set here as well: then `get_` gives the new value, nothing else changes,
and a warning says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from device import flags


def _getter(name: str) -> Callable[[], Any]:
    def get() -> Any:
        return flags.get(name)

    get.__doc__ = f"The value of {name}."
    return get


def _setter(name: str) -> Callable[[Any], None]:
    def set(value: Any) -> None:
        if not flags.set(name, value) and flags.variables()[name].effect:
            warnings.warn(f"{name} is read at the start; setting it now has no effect", stacklevel=2)

    set.__doc__ = f"Set {name} for this process."
    return set


def _functions() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for variable in flags.bridge_variables():
        for verb, make in (("get", _getter), ("set", _setter)):
            function = make(variable.name)
            function.__name__ = function.__qualname__ = f"{verb}_{variable.name.lower()}"
            found[function.__name__] = function
    return found


_by_name = _functions()
globals().update(_by_name)


@contextmanager
def env_setting(var: str, val: Any) -> Iterator[None]:
    """Within the block the flag `var` has the value `val`.

    Raises:
        ConfigurationError: no such flag.
    """
    before = flags.get(var)
    _by_name[f"set_{var.lower()}"](val)
    try:
        yield
    finally:
        _by_name[f"set_{var.lower()}"](before)


def __getattr__(name: str) -> Any:
    verb, _, flag = name.partition("_")
    if verb in ("get", "set"):
        raise AttributeError(f"{flag.upper()} is no flag of the bridge{flags.hint(flag.upper())}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["env_setting", *_by_name]
