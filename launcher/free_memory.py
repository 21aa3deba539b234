"""How much memory this machine has left."""

from __future__ import annotations

import contextlib
from pathlib import Path


def available_memory() -> int | None:
    """Bytes that new processes may take without swapping; None where the kernel does not say."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None
