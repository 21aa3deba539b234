"""`apex` and `pynvml` for scripts that import them, where they are not installed."""

from __future__ import annotations

import importlib.util
import sys

from . import apex, pynvml
from .apex import amp, normalization, optimizers, parallel
from .call_log import note

_STAND_INS = {
    "apex": {
        "apex": apex,
        "apex.amp": amp,
        "apex.normalization": normalization,
        "apex.optimizers": optimizers,
        "apex.parallel": parallel,
    },
    "pynvml": {"pynvml": pynvml},
}


def apply() -> None:
    """Put each one where `import` finds it."""
    for package, modules in _STAND_INS.items():
        if package not in sys.modules and importlib.util.find_spec(package) is None:
            note(f"import {package}", "a stand-in")
            sys.modules.update(modules)
