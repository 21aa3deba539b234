"""Whether there is a card, and names with which old scripts loaded the bridge."""

from __future__ import annotations

import subprocess

__all__ = ["is_habana_available", "load_habana_module", "load_habana_profiler"]


def is_habana_available() -> bool:
    """Whether `hl-smi -v` answers as a Habana tool does."""
    try:
        done = subprocess.run(["hl-smi", "-v"], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.returncode == 0 and "habana" in (done.stdout + done.stderr).lower()


def load_habana_module() -> None:
    """Nothing: importing this module has loaded the bridge."""


def load_habana_profiler() -> None:
    """Nothing: the profiler is part of the bridge."""
