"""What the migration mapped, for who wants to port a script for good.

GPU_MIGRATION_LOG_LEVEL: 1 writes every mapped call to the file and to the console, 2 to the file, 3 only those that a
script outside PyTorch made. The file is `gpu_migration_logs/gpu_migration_<pid>.log` below HABANA_LOGS
(default: `.habana_logs` in the home folder).
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, TypeVar

import torch

from device.environment import number
from device.errors import ConfigurationError

VARIABLE = "GPU_MIGRATION_LOG_LEVEL"
_TORCH = str(Path(torch.__file__).parent)
_OWN = str(Path(__file__).parent)

_Call = TypeVar("_Call", bound=Callable[..., Any])
_file: TextIO | None = None


def _level() -> int:
    level = number(VARIABLE, 0)
    if level not in (0, 1, 2, 3):
        raise ConfigurationError(f"{VARIABLE}={level}: use 1 (file and console), 2 (file), 3 (file, not PyTorch's own)")
    return level


LEVEL = _level()


def path() -> Path:
    """The log of this process."""
    folder = Path(os.environ.get("HABANA_LOGS") or Path.home() / ".habana_logs")
    return folder / "gpu_migration_logs" / f"gpu_migration_{os.getpid()}.log"


def note(old: str, new: str) -> None:
    """Write that `old` was answered by `new`, and for which line of the script."""
    global _file
    if not LEVEL:
        return
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    place = frame.f_code.co_filename
    if LEVEL == 3 and place.startswith(_TORCH):
        return
    line = f"{place}:{frame.f_lineno} {old} -> {new}\n"
    if _file is None:
        try:
            path().parent.mkdir(parents=True, exist_ok=True)
            _file = path().open("a", encoding="utf-8", buffering=1)
        except OSError as error:
            raise ConfigurationError(
                f"{VARIABLE}={LEVEL}: {error.filename} cannot be written: {error.strerror}; set HABANA_LOGS"
            ) from error
    _file.write(line)
    if LEVEL == 1:
        sys.stderr.write(f"gpu_migration: {line}")


def logged(old: str, new: str, call: _Call) -> _Call:
    """`call`, which writes itself to the log."""
    if not LEVEL:
        return call

    @functools.wraps(call)
    def told(*arguments: Any, **options: Any) -> Any:
        note(old, new)
        return call(*arguments, **options)

    return told  # type: ignore[return-value]
