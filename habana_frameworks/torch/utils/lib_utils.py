"""Folders that programs ask for when they build native operators for the bridge."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def get_include_dir() -> str:
    """Folder of the bridge's headers. It holds none: an operator of a card's own kernel language cannot run here."""
    return str(_PACKAGE / "include")


def get_lib_dir() -> str:
    """Folder of the bridge's libraries; see `get_include_dir`."""
    return str(_PACKAGE / "lib")
