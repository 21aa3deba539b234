"""`get_max_file`, a helper of readers."""

from __future__ import annotations

import os
from collections.abc import Iterable


def get_max_file(files: Iterable[str]) -> str:
    """The largest of `files` by its size in bytes. Raises ValueError where there is none."""
    return max(files, key=os.path.getsize)
