"""Lines of a program's own in the bridge's log files, and the end of the bridge."""

from __future__ import annotations

from device.card import current_card
from device.loggers import Level, loggers

_module_name = ""


def _hb_print(msg: str) -> None:
    """A line of the logger PT_CUSTOM."""
    loggers.log("PT_CUSTOM", Level.debug, msg)


def _hg_print(msg: str) -> None:
    """A line of the logger PT_HPUGRAPH."""
    loggers.log("PT_HPUGRAPH", Level.debug, msg)


def _towl_print(text: str) -> None:
    """A line of the logger PT_TOWL."""
    loggers.log("PT_TOWL", Level.info, text)


def _towl_configure(flag: bool, config: str = "") -> None:
    """Switch the logger PT_TOWL on or off."""
    loggers.enable("LOG_LEVEL_PT_TOWL", Level.trace if flag else Level.off)


def _set_module_name(name: str = "") -> None:
    """The name of the module that runs. Recipes name source lines instead, so it is only remembered."""
    global _module_name
    _module_name = name


def _bridge_cleanup() -> None:
    """Run what was recorded and wait for it."""
    card = current_card()
    if card is not None:
        card.flush_and_wait("bridge cleanup")
