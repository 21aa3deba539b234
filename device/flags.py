"""Environment variables of the Gaudi software and of the emulator: names, kinds, defaults, effects, values now.

The list is data (`configs/environment/*.toml`). A variable is read from the environment when it is first asked for, as
the bridge does, and keeps that value unless a program sets another (`set`). Parts of the device that read a variable by
themselves once, at the start, say so by having no watcher here.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .description import configs_dir, read_table
from .environment import flag, lazy_mode, number, software_release
from .errors import ConfigurationError

Value = bool | int | str
BRIDGE_FILES = ("bridge", "later")  # what `internal.bridge_config` has functions for
FILES = (*BRIDGE_FILES, "system", "emulator")
LATER = "default_"  # default_1_20: from release 1.20 on
PREFIX = "PT_HPU_"
"""An unknown variable that begins so is a mistake worth a hint; with other beginnings it may be somebody else's."""


@dataclass(frozen=True)
class Variable:
    """One variable. `effect`: what it does here, "" where it is accepted and does nothing."""

    name: str
    kind: str  # "flag", "number" or "text"
    default: Value
    later_defaults: tuple[tuple[tuple[int, ...], Value], ...]  # from which release on, newest first
    default_eager: Value
    at_run_time: bool  # asked each time that it matters, so that `set` changes what happens
    fixed_at_import: bool  # a later change of the environment does nothing
    effect: str
    source: str  # the file that lists it
    since: str

    def current_default(self) -> Value:
        """The default for the chosen release and mode."""
        if self.default_eager != self.default and lazy_mode() == 0:
            return self.default_eager
        release = software_release()
        return next((value for since, value in self.later_defaults if release >= since), self.default)

    def from_environment(self, environ: Mapping[str, str] | None = None) -> Value:
        """Its value in the environment, or in another mapping.

        Raises:
            ConfigurationError: not a value of its kind.
        """
        default = self.current_default()
        if self.kind == "flag":
            return flag(self.name, bool(default), environ)
        if self.kind == "number":
            return number(self.name, int(default), environ)
        return (os.environ if environ is None else environ).get(self.name, str(default))

    def checked(self, value: Any) -> Value:
        """`value` as this variable's kind.

        Raises:
            TypeError: of another kind.
        """
        wanted: type[Value] = {"flag": bool, "number": int, "text": str}[self.kind]
        if isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)):
            return value
        raise TypeError(f"{self.name} is a {self.kind}, of type {wanted.__name__}; got {value!r}")


def _later_defaults(entry: Mapping[str, Any]) -> tuple[tuple[tuple[int, ...], Value], ...]:
    found = [
        (tuple(int(part) for part in key.removeprefix(LATER).split("_")), value)
        for key, value in entry.items()
        if key.startswith(LATER) and key != "default_eager"
    ]
    return tuple(sorted(found, reverse=True))


def _variables(source: str, path: Path) -> list[Variable]:
    found = []
    for name, entry in read_table(path, "environment").items():
        default = entry["default"]
        found.append(
            Variable(
                name=name,
                kind=entry["kind"],
                default=default,
                later_defaults=_later_defaults(entry),
                default_eager=entry.get("default_eager", default),
                at_run_time=entry.get("at_run_time", False),
                fixed_at_import=entry.get("fixed_at_import", False),
                effect=entry.get("effect", ""),
                source=source,
                since=entry.get("since", ""),
            )
        )
    return found


@cache
def variables() -> Mapping[str, Variable]:
    """All known variables by name, in the order of their files."""
    folder = configs_dir() / "environment"
    return {variable.name: variable for source in FILES for variable in _variables(source, folder / f"{source}.toml")}


def bridge_variables() -> list[Variable]:
    """Those that the bridge has a flag for."""
    return [variable for variable in variables().values() if variable.source in BRIDGE_FILES]


_values: dict[str, Value] = {}
_watchers: dict[str, Callable[[Any], None]] = {}
_askers: dict[str, Callable[[], Value]] = {}


def _variable(name: str) -> Variable:
    known = variables().get(name)
    if known is None:
        raise ConfigurationError(f"{name} is no known variable{hint(name)}")
    return known


def get(name: str) -> Any:
    """The variable's value: as set, else as the environment had it when it was first asked for, else the default."""
    if name in _askers:
        return _askers[name]()
    if name not in _values:
        _values[name] = _variable(name).from_environment()
    return _values[name]


def set(name: str, value: Any) -> bool:
    """Set the variable for this process; returns whether that changes anything from now on.

    Raises:
        TypeError: a value of another kind.
    """
    variable = _variable(name)
    _values[name] = variable.checked(value)
    if name not in _watchers:
        return variable.at_run_time
    _watchers[name](_values[name])
    return True


def watch(name: str, watcher: Callable[[Any], None], asker: Callable[[], Value] | None = None) -> None:
    """Call `watcher(value)` when the variable is set; `asker` gives its value where another way can change it, too."""
    _watchers[name] = watcher
    if asker is not None:
        _askers[name] = asker


def hint(name: str) -> str:
    """`; did you mean ...?` with the nearest known name, or nothing."""
    near = difflib.get_close_matches(name, variables(), n=1, cutoff=0.75)
    return f"; did you mean {near[0]}?" if near else ""


def unknown(environ: Mapping[str, str] | None = None) -> list[str]:
    """A line for each variable of the environment that looks like one of ours and is none."""
    names = os.environ if environ is None else environ
    return [
        f"{name} is no variable of the Gaudi software, and has no effect{hint(name)}"
        for name in sorted(names)
        if name.startswith(PREFIX) and name not in variables()
    ]
