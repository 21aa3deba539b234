"""The bridge's log files: one logger per part, levels by environment variable or at run time.

LOG_LEVEL_<logger> goes before LOG_LEVEL_ALL_PT, that before LOG_LEVEL_ALL: 0 trace, 1 debug, 2 info, 3 warnings, 4
errors, 5 critical (the default), 6 off. Lines go to `pytorch_log.txt` in the folder HABANA_LOGS (default
~/.habana_logs), in a folder of the rank's number where there are ranks; with ENABLE_CONSOLE to standard error as well.
"""

from __future__ import annotations

import datetime
import enum
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from . import flags
from .errors import ConfigurationError

FILE = "pytorch_log.txt"
LOGGERS = (
    "PT_DEVICE",
    "PT_KERNEL",
    "PT_BRIDGE",
    "PT_SYNHELPER",
    "PT_DISTRIBUTED",
    "PT_LAZY",
    "PT_TRACE",
    "PT_FALLBACK",
    "PT_STATS",
    "PT_TEST",
    "PT_DYNAMIC_SHAPE",
    "PT_DEVMEM",
    "PT_HABHELPER",
    "PT_IRGRAPH",
    "PT_VIEWTABLE",
    "PT_REFINEMENT",
    "PT_HOSTSTAT",
    "PT_LAYOUTS",
    "PT_PARALLEL_ACC",
    "PT_LAZY_EAGER",
    "PT_MEMLOG",
    "PT_EXEC_THREAD",
    "PT_EAGER",
    "PT_CUSTOM",
    "PT_RECIPE_STATS",
    "PT_HPUGRAPH",
    "PT_CONST_SECTION",
    "PT_PYTHON",
    "PT_TOWL",
)
PREFIX = "LOG_LEVEL_"
ALL = ("LOG_LEVEL_ALL_PT", "LOG_LEVEL_ALL")


class Level(enum.IntEnum):
    """How much a message matters, or how much a message must matter to be written."""

    trace = 0
    debug = 1
    info = 2
    warn = 3
    error = 4
    critical = 5
    off = 6


def level_of(text: str, where: str = "level") -> Level:
    """A level by name or number.

    Raises:
        ConfigurationError: neither.
    """
    word = text.strip().lower()
    if word in Level.__members__:
        return Level[word]
    if word.isdecimal() and int(word) <= Level.off:
        return Level(int(word))
    raise ConfigurationError(f"{where}={text!r} is no log level; use 0 to 6, or {', '.join(Level.__members__)}")


class Loggers:
    """The loggers of this process."""

    def __init__(self) -> None:
        self._levels: dict[str, Level] | None = None
        self._lock = threading.Lock()
        self._failed = False
        self.changed: Callable[[], None] = lambda: None
        """Called when a level has changed."""

    @property
    def levels(self) -> dict[str, Level]:
        """The level of each logger; the environment is read when this is first asked."""
        if self._levels is None:
            self._levels = {name: _from_environment(name) for name in LOGGERS}
        return self._levels

    def enabled(self, name: str, level: Level) -> bool:
        """Whether a message of that level would be written."""
        return self.levels[name] <= level < Level.off

    def enable(self, mask: str, level: Level) -> None:
        """Set the level of the logger `LOG_LEVEL_<name>`, or of all.

        Raises:
            ConfigurationError: no such logger.
        """
        if mask in ALL:
            self.levels.update(dict.fromkeys(LOGGERS, level))
            self.changed()
            return
        name = mask.removeprefix(PREFIX)
        if name not in LOGGERS:
            raise ConfigurationError(
                f"there is no logger {mask!r}; use LOG_LEVEL_ALL_PT, or {PREFIX}NAME with a name such as PT_BRIDGE"
            )
        self.levels[name] = level
        self.changed()

    def log(self, name: str, level: Level, text: str) -> None:
        """Write a line, if the logger's level lets it."""
        if not self.enabled(name, level):
            return
        now = datetime.datetime.now().strftime("%H:%M:%S.%f")
        line = f"[{now}][{name:<16}][{level.name:<8}][tid:{threading.get_native_id():X}] {text}\n"
        with self._lock:
            if flags.get("ENABLE_CONSOLE"):
                sys.stderr.write(line)
            self._append(line)

    def _append(self, line: str) -> None:
        try:
            path = folder() / FILE
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(line)
        except OSError as error:
            if not self._failed:
                print(
                    f"hpu: log lines are lost: {error.filename}: {error.strerror}; set HABANA_LOGS to a folder that "
                    "can be written",
                    file=sys.stderr,
                )
            self._failed = True


def folder() -> Path:
    """Where the log files stand."""
    root = Path(os.environ.get("HABANA_LOGS") or "~/.habana_logs").expanduser()
    rank = os.environ.get("ID", "")
    return root / rank if rank.isdecimal() else root


def _from_environment(name: str) -> Level:
    for variable in (f"{PREFIX}{name}", *ALL):
        text = os.environ.get(variable, "")
        if text:
            return level_of(text, variable)
    return Level.critical


loggers = Loggers()
