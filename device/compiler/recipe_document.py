"""Programs and recipes as plain data (lists, numbers, strings) and back: what a cache file and a report hold.

A dataclass becomes the list of its fields' values in their order; `fields()` names them, and a document with other ones
is refused. A recipe's scheduled nodes refer to the program's nodes by number.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Callable, Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

from .program import Access, EngineNode, Program, ProgramBuffer
from .recipe import Recipe, ScheduledNode

FORMAT = 1
"""Version of the documents' form. The fields of the dataclasses stand in the documents and need no new version."""

_KINDS = (Program, EngineNode, Access, ProgramBuffer, ScheduledNode, Recipe)


class DocumentError(ValueError):
    """A document cannot be read: truncated, damaged or foreign. The message names the place in it."""


_Decode = Callable[[Any], Any]


class _Misfit(Exception):
    """What does not fit, and where: parts of the path from the inside out."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.path: list[str] = []

    def inside(self, part: str) -> _Misfit:
        self.path.append(part)
        return self


def fields() -> dict[str, list[str]]:
    """The fields of each dataclass that documents hold, in order."""
    return {kind.__name__: [field.name for field in dataclasses.fields(kind)] for kind in _KINDS}


def programs_document(programs: Mapping[str, Program]) -> dict[str, Any]:
    """Programs by name, as plain data."""
    return {**_opening(), "programs": {name: _plain(program) for name, program in programs.items()}}


def programs_of(document: Any) -> dict[str, Program]:
    """The programs of a document, by name.

    Raises:
        DocumentError: the document does not hold programs of this version; the place and the value are named.
    """
    body = _opened(document, ("programs",))["programs"]
    if not isinstance(body, dict):
        raise DocumentError(f"programs: expected an object, got {_shown(body)}")
    return {name: _program(plain, f"programs.{name}") for name, plain in body.items()}


def recipe_document(recipe: Recipe) -> dict[str, Any]:
    """A recipe as plain data."""
    numbers = {id(node): number for number, node in enumerate(recipe.program.nodes)}
    scheduled = []
    for entry in recipe.nodes:
        values = _plain(entry)
        values[_NODE] = numbers.get(id(entry.node), values[_NODE])
        scheduled.append(values)
    values = [
        scheduled if name == "nodes" else _plain(getattr(recipe, name)) for name in _names(Recipe) if name != "program"
    ]
    return {**_opening(), "program": _plain(recipe.program), "recipe": values}


def recipe_of(document: Any) -> Recipe:
    """The recipe of a document.

    Raises:
        DocumentError: the document is no recipe of this version; the place and the value are named.
    """
    opened = _opened(document, ("program", "recipe"))
    program, body = _program(opened["program"], "program"), opened["recipe"]
    names = [name for name in _names(Recipe) if name != "program"]
    if not isinstance(body, list) or len(body) != len(names):
        raise DocumentError(f"recipe: expected a list of {len(names)} values, got {_shown(body)}")
    values: dict[str, Any] = {"program": program}
    for name, value in zip(names, body, strict=True):
        if name == "nodes":
            values[name] = tuple(_scheduled(value, program))
        else:
            values[name] = _decoded(_RECIPE[name], value, f"recipe.{name}")
    return Recipe(**values)


def _scheduled(plain: Any, program: Program) -> list[ScheduledNode]:
    if not isinstance(plain, list):
        raise DocumentError(f"recipe.nodes: expected a list, got {_shown(plain)}")
    nodes = []
    for number, entry in enumerate(plain):
        where = f"recipe.nodes[{number}]"
        if not isinstance(entry, list) or len(entry) != len(_SCHEDULED):
            raise DocumentError(f"{where}: expected a list of {len(_SCHEDULED)} values, got {_shown(entry)}")
        values: dict[str, Any] = {}
        for (name, decode), value in zip(_SCHEDULED.items(), entry, strict=True):
            if name == "node" and type(value) is int:
                if not 0 <= value < len(program.nodes):
                    raise DocumentError(f"{where}.node: the program has no node {value}")
                values[name] = program.nodes[value]
            else:
                values[name] = _decoded(decode, value, f"{where}.{name}")
        nodes.append(ScheduledNode(**values))
    return nodes


def _program(plain: Any, where: str) -> Program:
    """A program whose accesses are all to buffers that it has."""
    program: Program = _decoded(_PROGRAM, plain, where)
    for number, node in enumerate(program.nodes):
        for access in node.reads + node.writes:
            if not 0 <= access.buffer < len(program.buffers):
                raise DocumentError(f"{where}.nodes[{number}]: the program has no buffer {access.buffer}")
    return program


def _opening() -> dict[str, Any]:
    return {"format": FORMAT, "fields": fields()}


def _opened(document: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise DocumentError(f"expected an object, got {_shown(document)}")
    if document.get("format") != FORMAT:
        raise DocumentError(f"format: expected {FORMAT}, got {_shown(document.get('format'))}")
    if document.get("fields") != fields():
        raise DocumentError("fields: written by a version of the compiler with other fields")
    for key in keys:
        if key not in document:
            raise DocumentError(f"{key}: missing")
    return document


# -- encoding and decoding by type ---------------------------------------------------------------------------------


def _names(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
    return value.value if isinstance(value, enum.Enum) else value


def _decoded(decode: _Decode, plain: Any, where: str) -> Any:
    try:
        return decode(plain)
    except _Misfit as misfit:
        raise DocumentError(f"{where}{''.join(reversed(misfit.path))}: {misfit}") from misfit


def _decoder(hint: Any) -> _Decode:
    """What turns plain data into a value of the annotated type, or raises _Misfit."""
    if get_origin(hint) is tuple:
        items = get_args(hint)
        return _sequence(_decoder(items[0])) if items[-1] is Ellipsis else _row(tuple, [_decoder(i) for i in items])
    if get_origin(hint) in (Union, types.UnionType):
        return _union([_decoder(option) for option in get_args(hint)])
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        return _row(hint, [_decoder(hints[name]) for name in _names(hint)], _names(hint))  # type: ignore[arg-type]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _member(hint)
    if not isinstance(hint, type):
        raise TypeError(f"recipe documents cannot hold a field of type {hint}")
    return _scalar(hint)


def _scalar(kind: type) -> _Decode:
    def decode(plain: Any) -> Any:
        if type(plain) is kind:
            return plain
        if kind is float and type(plain) is int:
            return float(plain)
        raise _Misfit(f"expected {kind.__name__}, got {_shown(plain)}")

    return decode


def _member(kind: type[enum.Enum]) -> _Decode:
    members = {member.value: member for member in kind}

    def decode(plain: Any) -> Any:
        if not isinstance(plain, str) or plain not in members:
            raise _Misfit(f"expected one of {', '.join(members)}, got {_shown(plain)}")
        return members[plain]

    return decode


def _sequence(item: _Decode) -> _Decode:
    def decode(plain: Any) -> Any:
        if not isinstance(plain, list):
            raise _Misfit(f"expected a list, got {_shown(plain)}")
        values = []
        for number, value in enumerate(plain):
            try:
                values.append(item(value))
            except _Misfit as misfit:
                raise misfit.inside(f"[{number}]") from None
        return tuple(values)

    return decode


def _row(kind: type, items: list[_Decode], names: list[str] | None = None) -> _Decode:
    def decode(plain: Any) -> Any:
        if not isinstance(plain, list) or len(plain) != len(items):
            raise _Misfit(f"expected a list of {len(items)} values, got {_shown(plain)}")
        values = []
        for number, (item, value) in enumerate(zip(items, plain, strict=True)):
            try:
                values.append(item(value))
            except _Misfit as misfit:
                raise misfit.inside(f".{names[number]}" if names else f"[{number}]") from None
        return kind(*values) if names else tuple(values)

    return decode


def _union(options: list[_Decode]) -> _Decode:
    def decode(plain: Any) -> Any:
        problem = None
        for option in options:
            try:
                return option(plain)
            except _Misfit as misfit:
                problem = problem or misfit
        raise problem or _Misfit("no type fits")

    return decode


def _shown(plain: Any) -> str:
    text = repr(plain)
    return text if len(text) <= 60 else text[:57] + "..."


_PROGRAM = _decoder(Program)
_RECIPE = {name: _decoder(hint) for name, hint in get_type_hints(Recipe).items() if name not in ("program", "nodes")}
_SCHEDULED = {name: _decoder(get_type_hints(ScheduledNode)[name]) for name in _names(ScheduledNode)}
_NODE = _names(ScheduledNode).index("node")
