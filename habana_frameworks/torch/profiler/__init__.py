"""Deprecated names of `habana_frameworks.torch.utils.profiler`."""

from __future__ import annotations

import warnings

from ..utils import profiler

__all__ = ["setup_profiler", "start_profiler", "stop_profiler"]


def _warn(name: str) -> None:
    warnings.warn(
        f"habana_frameworks.torch.profiler.{name} is deprecated; use torch.profiler, or _{name} of "
        "habana_frameworks.torch.utils.profiler",
        DeprecationWarning,
        stacklevel=3,
    )


def setup_profiler() -> None:
    """Deprecated: `utils.profiler._setup_profiler`."""
    _warn("setup_profiler")
    profiler._setup_profiler()


def start_profiler() -> None:
    """Deprecated: `utils.profiler._start_profiler`."""
    _warn("start_profiler")
    profiler._start_profiler()


def stop_profiler() -> None:
    """Deprecated: `utils.profiler._stop_profiler`."""
    _warn("stop_profiler")
    profiler._stop_profiler()
