"""What a stored recipe depends on besides its graph: the card, the compiler, the form of documents, the software.

The compiler is told by a hash over the source of this package, not by a version number, so that a change of it never
serves what the compiler before it made.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from ..compiler.recipe_document import FORMAT, fields
from ..spec import CardSpec

_DEVICE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Fingerprint:
    """Short hashes: of the card's description, and of compiler and document form; the software version."""

    card: str
    compiler: str
    software: str

    @property
    def environment(self) -> str:
        """All of it in one hash: part of file names."""
        return digest(f"{self.card} {self.compiler} {self.software}")[:12]


def digest(text: str) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(spec: CardSpec, software: str) -> Fingerprint:
    """The fingerprint of this process's card and compiler."""
    card = digest(json.dumps(dataclasses.asdict(spec), sort_keys=True))[:16]
    return Fingerprint(card, _compiler(), software)


@functools.cache
def _compiler() -> str:
    state = hashlib.sha256(json.dumps([FORMAT, fields()]).encode())
    for path in sorted(_DEVICE.rglob("*.py")):  # more than the compiler: what it uses may move
        state.update(path.relative_to(_DEVICE).as_posix().encode())
        state.update(path.read_bytes())
    return state.hexdigest()[:16]
