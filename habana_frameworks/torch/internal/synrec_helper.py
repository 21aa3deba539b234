"""Names of the recorder of driver calls. An emulated card makes none that could be recorded and played back."""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["synrec_start", "synrec_stop"]

_logger = logging.getLogger(__name__)
_told: set[str] = set()


def _tell(name: str) -> None:
    if name not in _told:
        _told.add(name)
        _logger.warning(
            f"{name} has no effect: an emulated card makes no driver calls that could be recorded; use "
            "HABANA_PROFILE=1 or torch.profiler to see what it does"
        )


def synrec_start(*args: Any, **kwargs: Any) -> None:
    """Says that there is nothing to record."""
    _tell("synrec_start")


def synrec_stop(*args: Any, **kwargs: Any) -> None:
    """Says that there is nothing to record."""
    _tell("synrec_stop")
