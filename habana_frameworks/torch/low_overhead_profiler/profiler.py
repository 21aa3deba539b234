"""Tracing by calls. An emulated card's traces cost no modelled time, so this is the same as `utils.profiler`."""

from __future__ import annotations

from device.profiler import control

__all__ = ["flush", "start", "stop"]


def start() -> None:
    """Trace from here on, or from the first use of the card."""
    control.start()


def stop() -> None:
    """Run what was recorded, wait for the card, and write the trace."""
    control.stop()


def flush() -> None:
    """Write the trace so far, and go on."""
    control.flush()
