"""What goes wrong in silence on the card: a note where the emulator can tell, an error with HPUCLUSTER_STRICT=1.

docs/strict.md lists the traps. A trap is either always worth a note (`note`), or ordinary behaviour that programs may
rely on and only the strict switch refuses (`refuse`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType

from . import flags
from .errors import ConfigurationError, HpuError

SWITCH = "HPUCLUSTER_STRICT"
_noted: set[str] = set()


class StrictError(HpuError):
    """Something that the card would have done without a word. The message names the remedy."""


def enabled() -> bool:
    """Whether silent traps are errors."""
    return bool(flags.get(SWITCH))


def note(topic: str, text: str) -> None:
    """Say `text` on standard error, once for a topic.

    Raises:
        StrictError: with HPUCLUSTER_STRICT=1, each time.
    """
    refuse(text)
    if topic not in _noted:
        _noted.add(topic)
        print(f"hpu: {text}", file=sys.stderr, flush=True)


def refuse(text: str) -> None:
    """Nothing, as on the card.

    Raises:
        StrictError: with HPUCLUSTER_STRICT=1.
    """
    if enabled():
        raise StrictError(f"{text} ({SWITCH}=1)")


_ROOT = Path(__file__).resolve().parent.parent
_OURS = tuple(f"{_ROOT / package}{os.sep}" for package in ("device", "habana_frameworks", "collectives"))
_PYTHONS_OWN = ("os.py", "_collections_abc.py", "<frozen os>", "<frozen _collections_abc>")
_fixed: dict[str, flags.Value] = {}


def follow_environment() -> None:
    """Have a change of a variable that is read at the import noticed where it happens. A second call does nothing.

    Python tells its audit hooks of each change of the environment; a hook cannot be taken back.
    """
    if _fixed:
        return
    for variable in flags.variables().values():
        if variable.fixed_at_import:
            _fixed[variable.name] = variable.from_environment()
    sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if event not in ("os.putenv", "os.unsetenv"):
        return
    name, *values = [part.decode(errors="replace") if isinstance(part, bytes) else str(part) for part in arguments]
    if name in _fixed:
        _changed(flags.variables()[name], dict.fromkeys([name], values[0]) if values else {})


def _changed(variable: flags.Variable, environ: dict[str, str]) -> None:
    before = _fixed[variable.name]
    try:
        after = variable.from_environment(environ)
    except ConfigurationError:  # of this variable, or of the one that says which release's default holds
        after = environ.get(variable.name, before)
    if after != before:
        note(
            f"change of {variable.name}",
            f"{_caller()} changes {variable.name} to {after!r}, which has no effect in this process: it was read at "
            f"the import of the device, as {before!r}. Set it before Python starts, or before the imports",
        )


def _caller() -> str:
    """Source line of whoever changed the environment."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if not str(path).startswith(_OURS) and path.name not in _PYTHONS_OWN:
            return f"{path.name}:{frame.f_lineno}"
        frame = frame.f_back
    return "this program"
