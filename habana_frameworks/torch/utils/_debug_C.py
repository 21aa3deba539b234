"""Names of the bridge's native debugging module that scripts call directly."""

from __future__ import annotations

from device.loggers import Level, level_of, loggers

log_level = Level


def is_log_python_enabled(level: Level) -> bool:
    """Whether a message of that level from Python would be written."""
    return loggers.enabled("PT_PYTHON", level)


def log_python(level: Level, message: str) -> None:
    """Write a message from Python."""
    loggers.log("PT_PYTHON", level, message)


def enable_logging(logger_name: str, logger_level: Level) -> None:
    """Set the level of `LOG_LEVEL_<name>`, `LOG_LEVEL_ALL` or `LOG_LEVEL_ALL_PT`."""
    loggers.enable(logger_name, logger_level)


def get_pt_logging_levels() -> dict[str, int]:
    """The level of each logger."""
    return {name: int(level) for name, level in loggers.levels.items()}


__all__ = [
    "enable_logging",
    "get_pt_logging_levels",
    "is_log_python_enabled",
    "level_of",
    "log_level",
    "log_python",
]
