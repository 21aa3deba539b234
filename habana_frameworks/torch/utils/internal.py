"""Which mode the process runs in."""

from __future__ import annotations

from device.backend import runtime


def is_lazy() -> bool:
    """Whether lazy mode was chosen when the bridge was imported; a later change of the variable has no effect."""
    return runtime.settings().lazy
