"""A recipe as the content of a cache file: a line that says what it is, with a checksum, and a line of JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from ..compiler.recipe import Recipe
from ..compiler.recipe_document import DocumentError, recipe_document, recipe_of

KIND = "hpucluster recipe"


@dataclass(frozen=True)
class Label:
    """What the file says of itself: the graph's signature, the fingerprint, and the job that wrote it."""

    signature: str
    card: str
    compiler: str
    software: str
    job: str


def packed(recipe: Recipe, label: Label) -> bytes:
    """The content of the file of a recipe."""
    body = json.dumps(recipe_document(recipe), separators=(",", ":"), allow_nan=False).encode()
    head = {"kind": KIND, **asdict(label), "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    return json.dumps(head).encode() + b"\n" + body + b"\n"


def label_of(content: bytes) -> Label:
    """What a file says of itself; its first line is enough.

    Raises:
        DocumentError: it is no such file.
    """
    head = _head(content)
    return Label(**{name: str(head[name]) for name in Label.__dataclass_fields__})


def unpacked(content: bytes) -> Recipe:
    """The recipe in a file.

    Raises:
        DocumentError: the file is foreign, truncated or damaged; says which.
    """
    head = _head(content)
    body = content[content.index(b"\n") + 1 :]
    if len(body) != head["bytes"] + 1:
        raise DocumentError(f"truncated: {len(body)} of {head['bytes'] + 1} bytes")
    if hashlib.sha256(body[:-1]).hexdigest() != head["sha256"]:
        raise DocumentError("damaged: the checksum differs")
    try:
        return recipe_of(json.loads(body, parse_constant=_no_number))
    except DocumentError:
        raise
    except ValueError as error:
        raise DocumentError(f"damaged: {error}") from error


def _head(content: bytes) -> Mapping[str, Any]:
    line, end, _ = content.partition(b"\n")
    try:
        head = json.loads(line) if end else None
    except ValueError:
        head = None
    if not isinstance(head, dict) or head.get("kind") != KIND:
        raise DocumentError("foreign or truncated: it does not begin as a recipe file of this program")
    missing = [name for name in (*Label.__dataclass_fields__, "bytes", "sha256") if name not in head]
    if missing or not isinstance(head["bytes"], int):
        raise DocumentError(f"damaged: {missing[0] if missing else 'bytes'} is missing in its first line")
    return head


def _no_number(text: str) -> NoReturn:
    raise DocumentError(f"{text} is not a figure")
