"""Profiling of parts of a run, by calls around them.

The files are those of the session that `hl-prof-config` has set up. They are complete after each stop; several parts of
a run stand in one file.
"""

from __future__ import annotations

from device.profiler import control

__all__ = ["_setup_profiler", "_start_profiler", "_stop_profiler"]


def _setup_profiler() -> None:
    """Nothing is left to set up; the name is part of the bridge's interface."""


def _start_profiler() -> None:
    """Trace from here on, or from the first use of the card."""
    control.start()


def _stop_profiler() -> None:
    """Run what was recorded, wait for the card, and write the trace."""
    control.stop()
