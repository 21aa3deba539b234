"""Log messages from Python, in the bridge's log files (`device/loggers.py`)."""

from __future__ import annotations

from typing import Any

from device.loggers import Level, level_of, loggers

__all__ = ["Logger", "enable_logging", "format_args", "get_log_level"]


def format_args(args: tuple[Any, ...]) -> str:
    """The message: a `{}` or `%` format and its values, or all values with commas between."""
    if args and isinstance(args[0], str):
        text, values = args[0], args[1:]
        if "{}" in text:
            return text.format(*map(str, values)) if values else ""
        if "%" in text:
            return text % values
    return ", ".join(map(str, args))


class Logger:
    """Messages that begin with `[type]`; kept in `data`, too, after `set_store_data(True)`."""

    def __init__(self, type: str) -> None:
        self.type = type
        self.store_data = False
        self.data: list[str] = []

    def log(self, level: Level, args: tuple[Any, ...]) -> None:
        """Write a message where its level is enabled, and keep it where messages are kept."""
        enabled = loggers.enabled("PT_PYTHON", level)
        if not enabled and not self.store_data:
            return
        message = f"[{self.type}] {format_args(args)}"
        if enabled:
            loggers.log("PT_PYTHON", level, message)
        if self.store_data:
            self.data.append(message)

    def trace(self, *args: Any) -> None:
        self.log(Level.trace, args)

    def debug(self, *args: Any) -> None:
        self.log(Level.debug, args)

    def info(self, *args: Any) -> None:
        self.log(Level.info, args)

    def warn(self, *args: Any) -> None:
        self.log(Level.warn, args)

    def error(self, *args: Any) -> None:
        self.log(Level.error, args)

    def critical(self, *args: Any) -> None:
        self.log(Level.critical, args)

    def set_store_data(self, enable: bool) -> None:
        """Keep messages from here on, beginning with none."""
        self.store_data = enable
        self.data = []


def get_log_level(logger_level: str) -> Level:
    """The level of that name.

    Raises:
        ConfigurationError: no such level.
    """
    return level_of(logger_level)


def enable_logging(logger_name: str, logger_level: str) -> None:
    """Set the level of `LOG_LEVEL_<name>`, `LOG_LEVEL_ALL` or `LOG_LEVEL_ALL_PT` to trace, debug, info, warn, error or
    critical.

    Raises:
        ConfigurationError: no such logger or level.
    """
    loggers.enable(logger_name, level_of(logger_level))
